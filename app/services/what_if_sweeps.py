"""Sweeps: a grid over one or two parameters of a what-if, each point a what-if with a run of its own."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from sqlalchemy import Engine
from sqlmodel import Session

from app.clock import Clock
from app.errors import Invalid, UnknownResource
from app.services import what_if
from app.services.clusters import require
from app.services.durable import Runs
from app.services.what_if_views import Seen, with_runs
from app.store import what_ifs as store
from app.store.engine import reading, transaction
from app.store.tables import Json, SweepRow

MAX_POINTS: Final = 64
MAX_PARAMETERS: Final = 2
HERE: Final = "$"
"""What stands in a change where the value of a parameter goes."""


@dataclass(frozen=True)
class Parameter:
    """One axis of a grid: a change in which `HERE` stands for the value, and the values."""

    name: str
    change: Mapping[str, Any]
    values: Sequence[float | str]

    def at(self, value: float | str) -> Json:
        """The change with a value.

        Raises:
            Invalid: if there is no place for it.
        """
        filled, count = _filled(dict(self.change), value)
        if not count:
            raise Invalid(f'parameter {self.name}: nothing in its change is "{HERE}", where the value goes')
        made: Json = filled
        return made


@dataclass(frozen=True)
class Sweep:
    """A sweep and its points, in the order of the grid."""

    row: SweepRow
    points: Sequence[Seen]


@dataclass(frozen=True)
class WantedSweep:
    """A sweep that is asked for.

    Attributes:
        common: what all points have in common, their changes first.
        parameters: the axes; the last one varies fastest.
    """

    common: what_if.Wanted
    parameters: Sequence[Parameter]

    def points(self) -> list[tuple[Json, what_if.Wanted]]:
        """The points: values by parameter, and what is asked there.

        Raises:
            Invalid: if there are none, too many, or a parameter occurs twice.
        """
        common = list(self.common.arguments.get("changes", ()))
        return [
            (
                point,
                what_if.Wanted({**self.common.arguments, "changes": [*common, *changes]}, self.common.name),
            )
            for point, changes in _grid(self.parameters)
        ]


def ask(
    engine: Engine, runs: Runs, cluster: str, wanted: WantedSweep, requested_by: str, clock: Clock
) -> Sweep:
    """Queue all points of a grid, or none.

    Raises:
        Invalid: if there are no points, too many, or a parameter occurs twice.
        AntecastError: as `what_if.ask`, for the first point that cannot be.
    """
    points = wanted.points()
    checks = [what_if.checked(engine, cluster, one) for _, one in points]
    row = SweepRow(
        sweep_id=f"sweep-{secrets.token_hex(12)}",
        cluster=cluster,
        name=wanted.common.name,
        question=dict(wanted.common.arguments),
        parameters={
            one.name: {"change": dict(one.change), "values": list(one.values)} for one in wanted.parameters
        },
        requested_by=requested_by[:63],
        requested_at=clock.now(),
    )
    with transaction(engine) as session:
        for check in checks:
            check(session)
        store.add(session, [row])
        for position, (point, one) in enumerate(points):
            what_if.enqueue(
                session,
                runs,
                cluster,
                one,
                requested_by,
                sweep_id=row.sweep_id,
                position=position,
                point=point,
            )
        return Sweep(row, with_runs(session, store.points(session, row.sweep_id)))


def get(engine: Engine, cluster: str, sweep_id: str) -> Sweep:
    """A sweep with its points.

    Raises:
        UnknownResource: if the cluster has none of that id.
    """
    with reading(engine) as session:
        return _sweep(session, cluster, sweep_id)


def page(engine: Engine, cluster: str, before: str | None, limit: int) -> list[Sweep]:
    """Sweeps of a cluster, the newest first; only those older than the one of id `before`.

    Raises:
        UnknownResource: if there is no such cluster, or it has no sweep `before`.
    """
    with reading(engine) as session:
        require(session, cluster)
        place = None
        if before is not None:
            last = _sweep(session, cluster, before).row
            place = store.Place(last.requested_at, last.sweep_id)
        rows = store.page_of_sweeps(session, cluster, place, limit)
        return [Sweep(row, with_runs(session, store.points(session, row.sweep_id))) for row in rows]


def cancel(engine: Engine, runs: Runs, cluster: str, sweep_id: str, clock: Clock) -> Sweep:
    """Cancel all points of a sweep that are not over; what has been answered stays.

    Raises:
        UnknownResource: if the cluster has none of that id.
    """
    with transaction(engine) as session:
        sweep = _sweep(session, cluster, sweep_id)
        if sweep.row.cancelled_at is None:
            sweep.row.cancelled_at = clock.now()
            session.add(sweep.row)
    for point in sweep.points:
        if point.run is not None and point.run.finished_at is None:
            runs.cancel(point.row.what_if_id)
    return get(engine, cluster, sweep_id)


def _sweep(session: Session, cluster: str, sweep_id: str) -> Sweep:
    require(session, cluster)
    row = store.get_sweep(session, sweep_id)
    if row is None or row.cluster != cluster:
        raise UnknownResource(f"cluster {cluster!r} has no sweep {sweep_id!r}")
    return Sweep(row, with_runs(session, store.points(session, sweep_id)))


def _grid(parameters: Sequence[Parameter]) -> list[tuple[Json, list[Json]]]:
    """Each point of the grid: values by parameter, and the changes that they make."""
    names = [one.name for one in parameters]
    if not 1 <= len(parameters) <= MAX_PARAMETERS or len(set(names)) != len(names):
        raise Invalid(f"a sweep has 1 to {MAX_PARAMETERS} parameters with names of their own")
    points = list(product(*(one.values for one in parameters)))
    if not 1 <= len(points) <= MAX_POINTS:
        raise Invalid(f"the grid has {len(points)} points, must have 1 to {MAX_POINTS}")
    return [
        (
            dict(zip(names, values, strict=True)),
            [one.at(value) for one, value in zip(parameters, values, strict=True)],
        )
        for values in points
    ]


def _filled(part: Any, value: float | str) -> tuple[Any, int]:
    """A part of a change with a value where it belongs, and how often that was."""
    if part == HERE:
        return value, 1
    if isinstance(part, Mapping):
        inner = {key: _filled(one, value) for key, one in part.items()}
        return {key: made for key, (made, _) in inner.items()}, sum(count for _, count in inner.values())
    if isinstance(part, list):
        made = [_filled(one, value) for one in part]
        return [one for one, _ in made], sum(count for _, count in made)
    return part, 0
