"""A worker process with the product's own kinds of runs, as `antecast worker` has them."""

import signal
import sys

from app.runs.registry import kinds
from app.runs.settings import WorkerSettings
from app.runs.worker import Worker, migrate

if __name__ == "__main__":
    settings = WorkerSettings()
    migrate(settings.database_url)
    worker = Worker(settings, kinds(settings))
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    sys.exit(0 if worker.run() else 1)
