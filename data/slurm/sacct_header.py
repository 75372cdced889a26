"""The first line of what `sacct` prints: which columns there are, and what stands between them."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NAMES: Final = _words(
    """
    account admincomment alloccpus allocgres allocnodes alloctres associd avecpu avecpufreq avediskread
    avediskwrite avepages averss avevmsize blockid cluster comment constraints consumedenergy
    consumedenergyraw container cputime cputimeraw dbindex derivedexitcode elapsed elapsedraw eligible end
    exitcode extra failednode flags gid group jobid jobidraw jobname layout licenses maxdiskread
    maxdiskreadnode maxdiskreadtask maxdiskwrite maxdiskwritenode maxdiskwritetask maxpages maxpagesnode
    maxpagestask maxrss maxrssnode maxrsstask maxvmsize maxvmsizenode maxvmsizetask mcslabel mincpu
    mincpunode mincputask ncpus nnodes nodelist ntasks partition planned plannedcpu plannedcpuraw priority
    qos qosraw qosreq reason reqcpufreq reqcpufreqgov reqcpufreqmax reqcpufreqmin reqcpus reqgres reqmem
    reqnodes reqtres reservation reservationid reserved restarts resvcpu resvcpuraw segmentsize sluid start
    state stderr stdin stdout submit submitline suspended systemcomment systemcpu timelimit timelimitraw
    totalcpu tresusageinave tresusageinmax tresusageinmaxnode tresusageinmaxtask tresusageinmin
    tresusageinminnode tresusageinmintask tresusageintot tresusageoutave tresusageoutmax tresusageoutmaxnode
    tresusageoutmaxtask tresusageoutmin tresusageoutminnode tresusageoutmintask tresusageouttot uid user
    usercpu wckey wckeyid workdir
    """
)
"""Fields that some version of sacct has or had (`sacct --helpformat`), in lower case."""

_FREE: Final = _words(
    """
    admincomment comment constraints container extra jobname licenses stderr stdin stdout submitline
    systemcomment workdir
    """
)
"""Fields in which any delimiter may stand: people write them."""

_WITH_COMMAS: Final = _words(
    """
    allocgres alloctres flags nodelist partition qosreq reqgres reqtres reservation tresusageinave
    tresusageinmax tresusageinmin tresusageintot tresusageoutave tresusageoutmax tresusageoutmin
    tresusageouttot
    """
)
_NEVER_BETWEEN: Final = " /:-_.=+[]()%T"
"""Characters of stamps, ids and amounts: a delimiter of nothing else cannot be told from what it parts."""

_MAX_DELIMITER: Final = 32
_MOST_NAMES: Final = 400
_GAP: Final = re.compile(r"[^A-Za-z0-9_]+", re.ASCII)
_DASHES: Final = re.compile(r"[- ]*-{2,}[- ]*")


class Header(NamedTuple):
    """Columns of a file.

    Attributes:
        delimiter: what stands between two of them, one character or more.
        names: their names as they stand, in lower case.
        is_closed: whether a delimiter follows the last one (`sacct -p`).
    """

    delimiter: str
    names: tuple[str, ...]
    is_closed: bool

    @property
    def known(self) -> frozenset[str]:
        """Those that sacct has."""
        return _NAMES.intersection(self.names)

    @property
    def is_of_jobs(self) -> bool:
        """Whether its rows can be told to be jobs."""
        return not self.known.isdisjoint({"jobid", "jobidraw"})

    def free(self) -> tuple[int, ...]:
        """Places of the columns that may hold the delimiter."""
        may_hold = _FREE | _WITH_COMMAS if self.delimiter == "," else _FREE
        return tuple(place for place, name in enumerate(self.names) if name in may_hold)


def header_of(line: str) -> Header | None:
    """The columns of a first line; None if it is no header with a job id, or what is between is not clear.

    Of all ways to part it the one counts that leaves most names that sacct knows.
    """
    text = line.strip("\ufeff")
    best: tuple[tuple[int, int, int], Header] | None = None
    for delimiter in dict.fromkeys(_delimiters(text)):
        found = _split(text, delimiter)
        if found is None:
            continue
        unknown = sum(name not in _NAMES for name in found.names)
        rank = (len(found.known), -unknown, len(delimiter))
        if best is None or rank > best[0]:
            best = (rank, found)
    return None if best is None or not best[1].is_of_jobs else best[1]


def is_fixed_width(lines: tuple[str, ...]) -> bool:
    """Whether this is what sacct prints for people: columns of a fixed width over a line of dashes."""
    if len(lines) < 2 or not _DASHES.fullmatch(lines[1]):
        return False
    return not _NAMES.isdisjoint(lines[0].casefold().split())


def _split(text: str, delimiter: str) -> Header | None:
    names = [name.strip().strip('"').casefold() for name in text.split(delimiter)]
    is_closed = len(names) > 1 and not names[-1]
    if is_closed:
        names.pop()
    if len(names) < 2 or len(names) > _MOST_NAMES:
        return None
    return Header(delimiter, tuple(names), is_closed)


def _delimiters(text: str) -> Iterator[str]:
    """What may stand between names: what follows a known first one, and everything that is in no name."""
    lower = text.casefold()
    if len(lower) == len(text):
        for first in sorted(name for name in _NAMES if lower.startswith(name)):
            yield from _gaps_after(text, lower, len(first))
    for gap in dict.fromkeys(_GAP.findall(text[:4096])):
        if 0 < len(gap) <= _MAX_DELIMITER and gap.strip(_NEVER_BETWEEN):
            yield gap
            if gap.strip(' "'):
                yield gap.strip(' "')


def _gaps_after(text: str, lower: str, start: int) -> Iterator[str]:
    for length in range(1, _MAX_DELIMITER + 1):
        gap = text[start : start + length]
        rest = lower[start + length : start + length + 24]
        if gap.strip(_NEVER_BETWEEN) and any(rest.startswith(name) for name in _NAMES):
            yield gap
