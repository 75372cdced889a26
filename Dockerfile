# The service: API, workers, migrations and the command line, one image.
FROM python:3.11-slim AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python -m venv --without-pip /opt/antecast
COPY requirements.lock ./
# What is not in the lock with its hash is not installed, and nothing is compiled.
RUN pip --python /opt/antecast/bin/python install --require-hashes --only-binary :all: -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY data data
COPY domain domain
COPY models models
COPY simulator simulator
COPY solver solver
# Of the executor the service uses the calibration only, but takes the distribution as it is.
COPY executor/pyproject.toml executor/README.md executor/
COPY executor/src executor/src
COPY client/pyproject.toml client/README.md client/
COPY client/src client/src
RUN pip --python /opt/antecast/bin/python install --no-deps --no-build-isolation . ./executor ./client \
    && pip --python /opt/antecast/bin/python uninstall --yes setuptools


FROM python:3.11-slim

# LightGBM wants OpenMP's library; the base image's own package tools are not needed any more.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && pip uninstall --yes --root-user-action=ignore pip setuptools wheel \
    && groupadd --gid 10001 antecast \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin antecast \
    && install --directory --owner 10001 --group 10001 --mode 0750 \
        /var/lib/antecast /var/lib/antecast/passwords /var/lib/antecast/join
COPY --from=build /opt/antecast /opt/antecast

ENV PATH=/opt/antecast/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /var/lib/antecast
EXPOSE 8000
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-I", "-S", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ.get(\"ANTECAST_PORT\", 8000)}/readyz', timeout=4)"]
ENTRYPOINT ["antecast"]
CMD ["serve", "--no-worker"]
