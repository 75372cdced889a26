"""Findings about lives, limits and widths."""

from typing import Final

from data.insight.evidence import Evidence
from data.insight.finding import Finding, FindingId
from data.insight.of_whom import HARDLY, LEAST_ROWS, MOST
from data.intake.rules import ImportRule
from data.records import MILLI
from domain.attempts import EndCause, LimitKind, Observation

_NEARLY_ALL: Final = 0.8
_SOME: Final = 0.01
_CENSORED_SHARE: Final = 0.001


def censored_at_edge(evidence: Evidence) -> Finding | None:
    """Whether jobs ran on where the record ends."""
    ran = evidence.ran
    runs = ran["life_cause"].eq(EndCause.NOT_ENDED.value) & ran["end_s"].isna()
    number = int(runs.sum())
    if not number or number < _CENSORED_SHARE * len(ran):
        return None
    text = f"{number:,} of {len(ran):,} jobs that ran ({number / len(ran):.1%}) had not ended"
    return Finding(FindingId.CENSORED_AT_EDGE, text, {"jobs": number, "share": number / len(ran)})


def truncated_at_start(evidence: Evidence) -> Finding | None:
    """Whether jobs ran before the record begins."""
    number = int(evidence.jobs["observation"].eq(Observation.LEFT_TRUNCATED.value).sum())
    if not number:
        return None
    text = f"{number:,} of {len(evidence.jobs):,} jobs began before the record"
    return Finding(FindingId.TRUNCATED_AT_START, text, {"jobs": number})


def mostly_cut_off(evidence: Evidence) -> Finding | None:
    """Whether most lives were not seen to their own end."""
    ran = evidence.ran
    share = evidence.share(ran["observation"].ne(Observation.FULL.value))
    if len(ran) < LEAST_ROWS or share < MOST:
        return None
    text = f"{share:.0%} of {len(ran):,} lives were cut off: cancelled, at their limit, preempted, running"
    return Finding(FindingId.MOSTLY_CUT_OFF, text, {"share": share})


def states_unknown(evidence: Evidence) -> Finding | None:
    """Whether nobody says how jobs ended."""
    share = evidence.share(evidence.ran["life_cause"].eq(EndCause.UNKNOWN.value))
    if share < MOST:
        return None
    text = f"of {share:.0%} of {len(evidence.ran):,} jobs that ran nobody says how they ended"
    return Finding(FindingId.STATES_UNKNOWN, text, {"share": share})


def lengths_disagree(evidence: Evidence) -> Finding | None:
    """Whether lengths given differ from end minus start."""
    number = evidence.rules.get(ImportRule.DURATION_MISMATCH.value, 0)
    if not number:
        return None
    return Finding(FindingId.LENGTHS_DISAGREE, f"{number:,} rows give another length", {"rows": number})


def lives_with_waits(evidence: Evidence) -> Finding | None:
    """Whether lives were reckoned from the submission."""
    if not evidence.says("life_includes_waiting"):
        return None
    number = len(evidence.ran)
    text = f"lives of {number:,} jobs are reckoned from their submission"
    return Finding(FindingId.LIVES_WITH_WAITS, text, {"jobs": number})


def limits(evidence: Evidence) -> Finding | None:
    """Whether requested limits say anything of a job."""
    jobs = evidence.jobs
    finite = jobs.loc[jobs["limit_kind"].eq(LimitKind.FINITE.value), "limit_s"]
    share = len(finite) / len(jobs) if len(jobs) else 0.0
    if share < HARDLY:
        return Finding(FindingId.NO_LIMITS, f"{share:.1%} of the jobs have a finite limit", {"share": share})
    counts = finite.value_counts()
    top = float(counts.iloc[0]) / len(finite)
    if len(finite) < LEAST_ROWS or top < _NEARLY_ALL:
        return None
    text = f"{top:.0%} of the limits are {float(str(counts.index[0])):.0f} s"
    return Finding(FindingId.LIMITS_SAY_LITTLE, text, {"share": top, "limit_s": float(str(counts.index[0]))})


def attempts_not_jobs(evidence: Evidence) -> Finding | None:
    """Whether rows are attempts that nothing joins."""
    if not evidence.says("one_row_per_attempt"):
        return None
    number = len(evidence.attempts)
    return Finding(
        FindingId.ATTEMPTS_NOT_JOBS,
        f"{number:,} rows are attempts without an id of their job",
        {"rows": number},
    )


def pods_not_jobs(evidence: Evidence) -> Finding | None:
    """Whether rows are pods."""
    if not evidence.says("pods_not_jobs"):
        return None
    number = len(evidence.attempts)
    return Finding(FindingId.PODS_NOT_JOBS, f"{number:,} rows are pods", {"rows": number})


def widths(evidence: Evidence) -> Finding | None:
    """Whether anybody says how wide jobs are, and whether in GPUs."""
    jobs = evidence.jobs
    known = evidence.share(jobs["gpus_milli"].notna())
    others = jobs[["cpus", "num_nodes"]].notna().any(axis=1)
    is_as_cpus = jobs["gpus_milli"].eq(jobs["cpus"] * MILLI)
    if evidence.says("processors_not_gpus") or (
        known >= MOST
        and evidence.share(is_as_cpus) >= 0.95
        and evidence.share(jobs["gpus_milli"].gt(0)) >= MOST
    ):
        text = f"{evidence.share(others):.0%} of {len(jobs):,} jobs say processors or nodes; none says GPUs"
        return Finding(FindingId.PROCESSORS, text, {"with_processors": evidence.share(others)})
    if known >= HARDLY:
        return None
    if evidence.share(others) < HARDLY:
        text = (
            f"{known:.1%} of {len(jobs):,} jobs say how many GPUs, {evidence.share(others):.1%} how many CPUs"
        )
        return Finding(FindingId.NO_WIDTHS, text, {"with_gpus": known})
    return Finding(
        FindingId.NO_GPU_COUNTS, f"{known:.1%} of {len(jobs):,} jobs say how many GPUs", {"with_gpus": known}
    )


def without_gpus(evidence: Evidence) -> Finding | None:
    """Whether jobs that need no GPU are among them."""
    share = evidence.share(evidence.jobs["gpus_milli"].eq(0))
    if share < _SOME:
        return None
    number = int(evidence.jobs["gpus_milli"].eq(0).sum())
    text = f"{share:.0%} of the jobs ({number:,}) need no GPU"
    which = FindingId.HARDLY_ANY_GPUS if share > 1.0 - HARDLY else FindingId.WITHOUT_GPUS
    return Finding(which, text, {"share": share, "jobs": number})


def shares_of_gpus(evidence: Evidence) -> Finding | None:
    """Whether jobs hold shares of GPUs."""
    gpus = evidence.jobs["gpus_milli"]
    number = int((gpus % MILLI > 0).sum())
    if not number or number < _SOME * len(gpus):
        return None
    text = f"{number:,} of {len(gpus):,} jobs hold a share of a GPU"
    return Finding(FindingId.SHARES_OF_GPUS, text, {"jobs": number, "share": number / len(gpus)})


def fields_trimmed(evidence: Evidence) -> Finding | None:
    """Whether values had spaces or units in them."""
    number = evidence.rules.get(ImportRule.TRIMMED.value, 0)
    if not number:
        return None
    return Finding(FindingId.FIELDS_TRIMMED, f"{number:,} rows had values to trim", {"rows": number})


def pools_come_and_go(evidence: Evidence) -> Finding | None:
    """Whether pools change their size, by the inventory."""
    names = sorted({one.pool for one in evidence.inventory.pools})
    born, dead, resized = [], [], []
    for name in names:
        sizes = [gpus or 0 for _, gpus in evidence.inventory.changes(name)]
        if len(sizes) < 2:
            continue
        resized.append(name)
        born += [name] if sizes[0] == 0 else []
        dead += [name] if sizes[-1] == 0 else []
    if not resized:
        return None
    text = (
        f"{len(resized)} of {len(names)} pools change their GPUs, {len(born)} are born "
        f"({', '.join(born) or 'none'}), {len(dead)} die ({', '.join(dead) or 'none'})"
    )
    return Finding(FindingId.POOLS_COME_AND_GO, text, {"changed": resized, "born": born, "dead": dead})
