"""Making the application."""

import subprocess
import sys

from app.main import create_app
from app.settings import ServiceSettings

HEAVY = ("numpy", "scipy", "pandas", "lightgbm", "matplotlib", "dbos", "alembic", "psycopg", "ortools")


def test_importing_the_service_brings_nothing_heavy_along():
    code = f"import app.main, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_construction_is_inert(tmp_path):
    path = tmp_path / "folder" / "antecast.db"
    app = create_app(ServiceSettings(database_url=f"sqlite:///{path}"))
    assert app.openapi()["info"]["title"] == "Antecast"
    assert not path.parent.exists()
