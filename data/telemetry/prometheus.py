"""Answers of Prometheus to range queries for the metrics of the DCGM exporter, series by series."""

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from data.intake.objects import json_documents, json_items
from data.intake.rows import Unreadable
from data.intake.source import BrokenFileError, opened, refuse
from data.intake.text import cleaned
from data.rules import Rule, shown
from data.stamps import MAX_INSTANT_S, MIN_INSTANT_S
from data.telemetry.tracks import DeviceId, Gathering, Metric, Series, Telemetry

MOST_SAMPLES: Final = 10_000_000
"""Most samples of all files together: about 250 MB."""

MOST_SERIES: Final = 500_000

_MOST: Final = {
    Metric.UTILISATION: 100.0,
    Metric.ENGINE_ACTIVE: 1.0,
    Metric.MEMORY_USED: 2.0**24,
    Metric.MEMORY_FREE: 2.0**24,
}
"""What DCGM cannot measure it writes as huge numbers, 2^31 - 16 and on."""

_ITEMS: Final = "data.result.item"
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_NOT_MEASURED: Final = frozenset({"nan", "+inf", "-inf", "inf", "", "null", "n/a", "notsupported"})
_MOST_NUMBER_CHARACTERS: Final = 64
_EXPORTERS: Final = ("dcgm-exporter", "nvidia-dcgm-exporter")
_PROCESS_LABELS: Final = ("pid", "process_id", "process_name")


class _SeriesError(ValueError):
    """A series that is none."""


def read_telemetry(paths: Iterable[Path]) -> Telemetry:
    """What all of the files tell together, plain or packed; their order does not matter.

    Raises:
        InputError: if a file cannot be read, is no answer to a range query or breaks in the middle, if there
            are more samples than are read, or if no file tells of a GPU.
    """
    gathering = Gathering()
    reading = _Reading(gathering)
    last = None
    for last in paths:
        reading.file(last)
    found = gathering.telemetry()
    if not found.devices and last is not None:
        why = "; ".join(f"{count} {what}" for what, count in found.notes.items()) or "there are no series"
        names = ", ".join(Metric)
        raise refuse(last, Rule.NOT_TELEMETRY, f"no sample of a GPU in any file ({why}); read are {names}")
    return found


class _Reading:
    """Reads file after file into one gathering, as long as there is not too much."""

    def __init__(self, gathering: Gathering) -> None:
        self._gathering = gathering
        self._samples = 0
        self._series = 0

    def file(self, path: Path) -> None:
        """Read one file."""
        number = 0
        try:
            with opened(path) as file:
                for number, item in json_items(file, (_ITEMS,)):
                    self._take(path, number, item)
        except BrokenFileError as error:
            raise refuse(path, Rule.NOT_TELEMETRY, f"after series {number}: {error}") from error
        if not number:
            _check_is_empty_answer(path)

    def _take(self, path: Path, number: int, item: dict[str, Any] | Unreadable) -> None:
        try:
            series = _series(item, self._gathering.notes)
        except _SeriesError as error:
            raise refuse(path, Rule.NOT_TELEMETRY, f"series {number}: {error}") from error
        self._series += 1
        if series is not None:
            self._samples += len(series.times_s)
            self._gathering.add(series)
        if self._samples > MOST_SAMPLES or self._series > MOST_SERIES:
            found = f"more than {MOST_SAMPLES:,} samples or {MOST_SERIES:,} series: ask for a shorter range"
            raise refuse(path, Rule.TOO_LARGE, f"{found} or a longer step")


def _check_is_empty_answer(path: Path) -> None:
    """Refuse a file without series unless it says that there are none."""
    try:
        with opened(path) as file:
            _, found = next(iter(json_documents(file)), (0, None))
    except BrokenFileError as error:
        raise refuse(path, Rule.NOT_TELEMETRY, str(error)) from error
    if not isinstance(found, dict):
        raise refuse(path, Rule.NOT_TELEMETRY, "an answer of Prometheus is a JSON object with data.result")
    if found.get("status") == "error":
        message = shown(f"{found.get('errorType')}: {found.get('error')}", 200)
        raise refuse(path, Rule.NOT_TELEMETRY, f"Prometheus answered with an error, {message}")
    data = found.get("data")
    if not isinstance(data, dict) or not isinstance(data.get("result"), list):
        raise refuse(path, Rule.NOT_TELEMETRY, "there is no list data.result: is it /api/v1/query_range?")
    if data["result"]:
        kind = shown(data.get("resultType"))
        raise refuse(path, Rule.NOT_TELEMETRY, f"data.result holds no series but {kind}")


def _series(item: dict[str, Any] | Unreadable, notes: Counter[str]) -> Series | None:
    """A series, or None where it is of something else, which is noted."""
    if isinstance(item, Unreadable):
        raise _SeriesError(item.message)
    labels = item.get("metric")
    if not isinstance(labels, dict):
        raise _SeriesError("it has no labels (metric)")
    words = {name: kept for name, value in labels.items() if (kept := _word(value)) is not None}
    if words.get("__name__") not in Metric.__members__.values():
        notes["series of other metrics, or without a name"] += 1
        return None
    metric = Metric(words["__name__"])
    values = item.get("values")
    if not isinstance(values, list):
        hint = " (an instant query: ask /api/v1/query_range)" if "value" in item else ""
        raise _SeriesError(f"it has no list of values{hint}")
    if "Hostname" not in words or "gpu" not in words:
        notes["series without the labels Hostname and gpu"] += 1
        return None
    instance = words.get("GPU_I_ID", "")
    if instance and metric is Metric.UTILISATION:
        notes[f"series of {metric} of MIG slices: it is not measured of slices"] += 1
        values = [[time_s, "NaN"] for time_s, _ in map(_pair, values)]
    device = DeviceId(words["Hostname"], words["gpu"], instance)
    profile = words.get("GPU_I_PROFILE", "") if instance else ""
    has_process = any(name in words for name in _PROCESS_LABELS)
    times_s, measured = _samples(values, metric, notes)
    return Series(
        metric, device, words.get("UUID", ""), profile, holder_of(words), has_process, times_s, measured
    )


def holder_of(labels: Mapping[str, str]) -> str | None:
    """The pod that a device is given to, as `namespace/pod`; None where labels name none.

    Where Prometheus keeps labels of its own, `pod` is the exporter's pod and `exported_pod` the one meant.
    """
    pod, space = labels.get("exported_pod"), labels.get("exported_namespace")
    if pod is None and labels.get("container") not in _EXPORTERS:
        pod, space = labels.get("pod"), labels.get("namespace")
    return pod if pod is None or space is None else f"{space}/{pod}"


def _word(value: object) -> str | None:
    """A label's text; None for what is no text or says nothing, which Prometheus takes for absent, too."""
    return cleaned(value)[0] if isinstance(value, str) else None


def _pair(sample: object) -> tuple[float, object]:
    if not isinstance(sample, list) or len(sample) != 2:
        raise _SeriesError(f"a sample is an instant and a value, this is {shown(sample)}")
    time_s, value = sample
    is_number = isinstance(time_s, int | float) and not isinstance(time_s, bool)
    if not is_number or not MIN_INSTANT_S <= time_s <= MAX_INSTANT_S:
        raise _SeriesError(f"{shown(time_s)} is no instant (epoch seconds)")
    return float(time_s), value


def _samples(values: list[Any], metric: Metric, notes: Counter[str]) -> tuple["array[float]", "array[float]"]:
    times_s, measured = array("d"), array("d")
    for sample in values:
        time_s, value = _pair(sample)
        number = _measured(value)
        if number > _MOST[metric] or number < 0.0:
            notes[f"samples of {metric} that are no such amount: taken as not measured"] += 1
            number = math.nan
        times_s.append(time_s)
        measured.append(number)
    return times_s, measured


def _measured(value: object) -> float:
    """A number as Prometheus writes it; NaN for one that is none: 0 would say that it was measured."""
    if value is None:
        return math.nan
    text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    if text is not None and len(text) <= _MOST_NUMBER_CHARACTERS:
        if _NUMBER.fullmatch(text):
            return float(text)
        if text.replace(" ", "").lower() in _NOT_MEASURED:
            return math.nan
    raise _SeriesError(f"{shown(value)} is no number of a sample")
