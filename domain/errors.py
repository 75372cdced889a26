"""Everything Antecast raises on purpose. The message says what is wrong and what to do next."""

from dataclasses import dataclass
from typing import Final

_SHOWN_FAULTS: Final = 20


class AntecastError(Exception):
    """Base of all errors that are meant for the person in front of the program."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken rule in one input: where it is, which rule, and what was found."""

    source: str
    line: int | None
    rule: str
    message: str

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{place}: {self.rule}: {self.message}"


class InputError(AntecastError):
    """Input that breaks its rules; carries every fault found, not only the first."""

    def __init__(self, faults: list[Fault]) -> None:
        if not faults:
            raise ValueError("an InputError needs at least one fault")
        self.faults: Final = tuple(faults)
        lines = [str(fault) for fault in self.faults[:_SHOWN_FAULTS]]
        if len(self.faults) > _SHOWN_FAULTS:
            lines.append(f"... and {len(self.faults) - _SHOWN_FAULTS} more faults")
        super().__init__("\n".join(lines))


class SettingError(AntecastError):
    """A setting (of a policy, a command or the service) that is unknown or out of its range."""


class ClairvoyanceError(SettingError):
    """A policy asked for the truth without having been allowed to see it."""


class PlanError(AntecastError):
    """A plan that reality refuses: it starts what is not pending, or uses GPUs that are not idle."""


class StalledError(AntecastError):
    """A replay in which jobs are left waiting although nothing is going to happen any more."""
