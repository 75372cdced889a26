"""Learning as an operation: train, hold the new model against the one in use, store, promote or not."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pandas as pd

from app.services.learners import Learner
from app.services.records import tail_hash
from data.history import History, content_hash
from data.splits import ended_before
from domain.errors import SettingError
from models.artifacts import ArtifactError, Manifest, Rule, Span
from models.artifacts.champion import Margins, Trial, Verdict, day_of, decide
from models.artifacts.folder import Stored
from models.artifacts.registry import Decision, Registry
from models.backtest import Progress, Record, facts, record_of, tell

_DAY_S: Final = 86_400.0
_TICK_FACTS: Final = 2000
_HEAD_START: Final = 1.0 / 3.0
"""Share of the time since the model in use was trained that the new one learns of before both are tried: of
one recipe and trained at the same instant, they would be the same model."""

ProgressFor = Callable[[str], Progress]


@dataclass(frozen=True)
class Training:
    """What to train, and how the result is held against what is in use.

    Attributes:
        as_of_s: instant as of which models are trained: nothing that happened later is looked at.
        data: name of the cluster or data set, under which models are kept.
        created: instant at which they are stored, ISO 8601 in UTC.
        trial_days: days before `as_of_s` that the old and the new model both forecast.
        most_asked: forecasts that a trial rests on at most; evenly spaced jobs where there are more.
        margins: see `models.artifacts.champion`.
    """

    as_of_s: float
    data: str
    created: str
    trial_days: float = 7.0
    most_asked: int = 5000
    margins: Margins = field(default_factory=Margins)


@dataclass(frozen=True)
class Outcome:
    """What came of training one model.

    Attributes:
        kind, name: of the model.
        version: its number in the registry.
        champion: number of the version in use from now on, None where there is none.
        is_promoted: whether that is the new one.
        why: one sentence.
        is_continued: whether it went on from a stored version instead of the whole record.
        scores: of its trial, by name; empty where there was none.
    """

    kind: str
    name: str
    version: int
    champion: int | None
    is_promoted: bool
    why: str
    is_continued: bool
    scores: Mapping[str, float]


def train(
    learner: Learner, history: History, registry: Registry, training: Training, progress_for: ProgressFor
) -> Outcome:
    """Train a model, hold it against the one in use, store it, and promote it if it wins.

    The trial: both forecast the last days before `as_of_s`, the new one trained as of where they begin. Then
    the new one is trained as of `as_of_s` and stored. The model in use is not asked about days that it was
    trained on: a trial begins when a third of the time since its training has passed, or later. Where that
    leaves too few days, the new model is stored and waits.

    Args:
        learner: what to train.
        history: the record; what happened after `as_of_s` is not looked at.
        registry: where models are kept.
        training: how to train.
        progress_for: makes the progress callback of a label.

    Raises:
        SettingError: if there is nothing to learn from, or the model in use was trained later.
        ArtifactError: if the model in use is damaged.
    """
    work = _Work.of(learner, history, registry, training, progress_for)
    model, is_continued = work.begin()
    verdict, scores = work.trial(model)
    learner.store.retrain(model, training.as_of_s)
    manifest = work.manifest(scores)
    version = registry.add(training.data, manifest, learner.store.to_parts(model))
    registry.decide(
        training.data,
        learner.kind,
        Decision(version, work.champion_number, training.created, verdict.is_promoted, verdict.why),
    )
    champion = version if verdict.is_promoted else work.champion_number
    return Outcome(
        learner.kind,
        learner.name,
        version,
        champion,
        verdict.is_promoted,
        verdict.why,
        is_continued,
        scores,
    )


@dataclass(frozen=True)
class _Work:
    """One training, and what it goes by."""

    learner: Learner
    frame: pd.DataFrame
    record: Record
    registry: Registry
    training: Training
    progress_for: ProgressFor
    champion_number: int | None
    champion: Stored | None
    trial_from_s: float

    @classmethod
    def of(
        cls,
        learner: Learner,
        history: History,
        registry: Registry,
        training: Training,
        progress_for: ProgressFor,
    ) -> "_Work":
        until_s = training.as_of_s
        record = record_of(history.frame, until_s)
        if not record.has_ended.any():
            raise SettingError(f"no job had ended by --as-of {until_s:g} s: there is nothing to learn from")
        number = registry.line(training.data, learner.kind).champion
        champion = None if number is None else registry.load(training.data, learner.kind, number)
        first_s = record.jobs[0].submit_s
        from_s = max(until_s - training.trial_days * _DAY_S, (first_s + until_s) / 2.0)
        if champion is not None:
            known_until_s = champion.manifest.training.until_s
            if known_until_s > until_s:
                raise SettingError(
                    f"version {number}, which is in use, was trained as of {known_until_s:g} s, later than "
                    f"--as-of {until_s:g} s"
                )
            from_s = max(from_s, known_until_s + (until_s - known_until_s) * _HEAD_START)
        return cls(
            learner,
            history.frame,
            record,
            registry,
            training,
            progress_for,
            number,
            champion,
            from_s,
        )

    @property
    def is_trial_possible(self) -> bool:
        """Whether enough days are left that the model in use was not trained on."""
        return self.training.as_of_s - self.trial_from_s >= self.training.margins.least_days * _DAY_S

    def begin(self) -> tuple[Any, bool]:
        """The new model, trained as of where the trial begins; whether it went on from a stored one."""
        label = f"{self.learner.kind}: learning"
        begin_s, model = self._to_continue()
        is_continued = model is not None
        if model is None:
            model = self.learner.make(self.record.jobs[0].submit_s)
        self._tell(model, begin_s, self.trial_from_s, label)
        if self.is_trial_possible:
            self.learner.store.retrain(model, self.trial_from_s)
        return model, is_continued

    def trial(self, model: Any) -> tuple[Verdict, dict[str, float]]:
        """Both models on the same stretch; the new one has then been told everything."""
        until_s = self.training.as_of_s
        if not self.is_trial_possible:
            self._tell(model, self.trial_from_s, until_s, f"{self.learner.kind}: learning")
            return self._too_early(), {}
        label, old = self._old()
        span = (self.trial_from_s, until_s)
        asked = self.training.most_asked
        name = f"the new {self.learner.name}"
        of_old = self.learner.run(
            old, self.record, span, most_asked=asked, progress=self._bar("asking the old")
        )
        del old
        of_new = self.learner.run(
            model, self.record, span, most_asked=asked, progress=self._bar("asking the new")
        )
        verdict = decide(
            Trial(name, of_new.losses, of_new.is_missed),
            Trial(label, of_old.losses, of_old.is_missed),
            day_of(of_new.at_s - self.trial_from_s),
            self.training.margins,
        )
        return verdict, dict(of_new.scores)

    def manifest(self, scores: Mapping[str, float]) -> Manifest:
        """What the new model is."""
        until_s = self.training.as_of_s
        known = ended_before(self.frame[self.frame["submit_s"] < until_s], until_s)
        return Manifest(
            kind=self.learner.kind,
            name=self.learner.name,
            created=self.training.created,
            training=Span(
                self.record.jobs[0].submit_s,
                until_s,
                len(known),
                content_hash(known),
                tail_hash(self.frame, until_s),
            ),
            seed=self.learner.seed,
            features=self.learner.store.features,
            settings=self.learner.recipe,
            scores={name: score if math.isfinite(score) else None for name, score in scores.items()},
        )

    def _old(self) -> tuple[str, Any]:
        """What the new model has to beat, told everything until the trial begins."""
        label = f"{self.learner.kind}: telling the old"
        old = None
        if self.champion is not None and self.learner.can_face(self.champion.manifest.settings):
            about = self.champion.manifest
            old = _revived(self.learner.renamed(about.name, about.seed), self.champion)
        if old is None or self.champion is None:
            old = self.learner.make_baseline(self.record.jobs[0].submit_s)
            self._tell(old, -math.inf, self.trial_from_s, label)
            return self.learner.baseline, old
        self._tell(old, about.training.until_s, self.trial_from_s, label)
        return f"version {self.champion_number} ({about.name})", old

    def _to_continue(self) -> tuple[float, Any]:
        """Until when the newest stored model that this training may go on from knows its record; and it.

        Minus infinity and None where there is none. One that is not in use and damaged is passed over.
        """
        data, kind = self.training.data, self.learner.kind
        for one in reversed(self.registry.versions(data, kind)):
            about = one.manifest
            if about is None or not self._continues(about):
                continue
            try:
                model = _revived(self.learner, self.registry.load(data, kind, one.number))
            except ArtifactError:
                if one.number == self.champion_number:
                    raise
                continue
            if model is not None:
                return about.training.until_s, model
        return -math.inf, None

    def _continues(self, about: Manifest) -> bool:
        return (
            about.training.until_s <= self.trial_from_s
            and (about.name, about.seed, about.settings)
            == (self.learner.name, self.learner.seed, self.learner.recipe)
            and about.training.tail_sha256 == tail_hash(self.frame, about.training.until_s)
        )

    def _too_early(self) -> Verdict:
        least = self.training.margins.least_days
        about = "" if self.champion is None else f"version {self.champion_number} stays: "
        days = (self.training.as_of_s - self.trial_from_s) / _DAY_S
        why = (
            f"{about}a trial needs {least} days, and {days:.1f} are left when a third of the time since the "
            "model in use was trained has passed"
        )
        return Verdict(False, why, math.nan, math.nan, math.inf, math.nan, math.nan, 0, 0)

    def _tell(self, model: Any, from_s: float, until_s: float, label: str) -> None:
        progress = self.progress_for(label)
        for done, fact in enumerate(facts(self.record, from_s, until_s)):
            tell(model, self.record, fact)
            if done % _TICK_FACTS == 0:
                progress(fact.place, len(self.record))

    def _bar(self, what: str) -> Progress:
        return self.progress_for(f"{self.learner.kind}: {what}")


def _revived(learner: Learner, stored: Stored) -> Any:
    """The stored model, put together; None if it is of another version of the program.

    Raises:
        ArtifactError: if it is damaged in any other way.
    """
    try:
        return learner.store.revive(stored)
    except ArtifactError as error:
        if error.fault.rule != Rule.FORMAT.value:
            raise
        return None


def described(outcome: Outcome) -> dict[str, Any]:
    """An outcome as a document."""
    return asdict(outcome)
