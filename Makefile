# Each target creates .venv by itself; the second time it takes a moment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-replay test check bench lock clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/ -/'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Antecast needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUNTIME): requirements.lock pyproject.toml executor/pyproject.toml client/pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e ./executor -e ./client
	@$(BIN)/python -c 'import lightgbm' || { \
		echo "LightGBM cannot load its system library (OpenMP, libgomp). Install it and run make again:"; \
		echo "  Debian, Ubuntu:  apt-get install libgomp1"; \
		echo "  Fedora, RHEL:    dnf install libgomp"; \
		echo "  macOS:           brew install libomp"; exit 1; }
	@touch $@

$(DEV): requirements-dev.lock $(RUNTIME)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

setup: $(DEV)  ## create .venv with everything a developer needs

demo: $(RUNTIME)  ## the whole loop on simulated GPUs, about a minute: a report, a picture of who ran where
	$(BIN)/antecast demo --out var/demo

demo-replay: $(RUNTIME)  ## a generated cluster replayed under five policies: table, pictures, one sentence
	$(BIN)/antecast demo-replay --out var/demo-replay

test: export OPENBLAS_NUM_THREADS = 1
test: $(DEV)  ## all tests that need nothing but this checkout
	$(BIN)/python -m pytest -n 2 --dist worksteal executor/tests
	$(BIN)/python -m pytest client/tests
	$(BIN)/python -m pytest -m "not bench_data" -n 2 --dist worksteal --ignore tests/e2e
	$(BIN)/python -m pytest -m "not bench_data" -n 2 --dist worksteal tests/e2e

check: $(DEV)  ## format, lint, complexity, types, import direction
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --strict executor/src client/src
	$(BIN)/lint-imports

bench: $(DEV)  ## speed and memory, as tables
	$(BIN)/python -m benchmarks.engine_speed
	$(BIN)/python -m benchmarks.replay_speed
	$(BIN)/python -m benchmarks.forecast_speed
	$(BIN)/python -m benchmarks.scenario_scores --speed
	$(BIN)/python -m benchmarks.replan_speed --instances 12
	$(BIN)/python -m benchmarks.decision_speed
	$(BIN)/python -m benchmarks.placement_speed

lock:  ## write the lock files anew (needs uv)
	uv pip compile pyproject.toml --extra build --universal --python-version 3.11 --generate-hashes \
		--no-emit-package antecast-client --no-emit-package antecast-executor --no-emit-index-url --no-header -q -o requirements.lock
	uv pip compile pyproject.toml --extra build --extra dev --universal --python-version 3.11 --generate-hashes \
		--no-emit-package antecast-client --no-emit-package antecast-executor --no-emit-index-url --no-header -q -o requirements-dev.lock

clean:  ## remove .venv and what runs have written
	rm -rf $(VENV) var
