"""`python -m app` is `antecast`."""

from app.cli import main

main()
