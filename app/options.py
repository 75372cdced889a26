"""Options that several commands have in common."""

from typing import Annotated

import typer

CheckPlansOption = Annotated[
    bool,
    typer.Option(
        "--check-plans/--no-check-plans",
        help="Let the independent checker look at every plan; a broken one ends the command "
        "(docs/plan-checks.md).",
    ),
]
