"""What findings are drawn from: one cluster's jobs, its inventory, what imports said of their files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd

from data.intake.format import Clock
from data.shelf.inventory import Inventory
from data.shelf.jobs import JobsView
from domain.attempts import Observation

DAY_S: Final = 86_400.0


@dataclass(frozen=True)
class Evidence:
    """One cluster of a history.

    Attributes:
        view: its jobs and attempts.
        clock: what its instants are.
        facts: what readers said of whole files: of each fact every value, in the order of the imports.
        rules: how many notes each rule has, over all imports.
        inventory: its nodes and pools.
    """

    view: JobsView
    clock: Clock = Clock.UTC
    facts: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    rules: Mapping[str, int] = field(default_factory=dict)
    inventory: Inventory = field(default_factory=Inventory)

    @property
    def jobs(self) -> pd.DataFrame:
        """Its jobs."""
        return self.view.jobs

    @property
    def attempts(self) -> pd.DataFrame:
        """Its attempts."""
        return self.view.attempts

    @property
    def ran(self) -> pd.DataFrame:
        """Jobs that ran."""
        return self.jobs[self.jobs["observation"].ne(Observation.NEVER_RAN.value)]

    def says(self, fact: str) -> bool:
        """Whether a reader said that of a file."""
        return any(bool(value) for value in self.facts.get(fact, ()))

    def share(self, is_so: pd.Series) -> float:
        """Share of rows of which something holds; 0 of none."""
        return float(is_so.mean()) if len(is_so) else 0.0


def merged_facts(reports: Sequence[Mapping[str, Any]]) -> tuple[dict[str, list[Any]], dict[str, int]]:
    """Facts and numbers of rules of several import reports, the oldest first."""
    facts: dict[str, list[Any]] = {}
    rules: dict[str, int] = {}
    for report in reports:
        for name, value in report.get("facts", {}).items():
            facts.setdefault(name, []).append(value)
        for rule, number in report.get("rules", {}).items():
            rules[rule] = rules.get(rule, 0) + int(number)
    return facts, rules
