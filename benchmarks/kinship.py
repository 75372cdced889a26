"""How alike siblings of a burst live: what the setting `kinship` of `anticipatory` should be.

    python -m benchmarks.kinship --jobs jobs.csv --pools pools.csv --train-until 777600 --until 1641600

Of the jobs submitted before --until only. Residual of each job at an instant t of its life: whether it still
ran, less its forecast S(t) at submit by the hazard. Kinship at t is the sum over pairs of siblings of the
product of residuals, over that of the standard deviations sqrt(S (1 - S)).
"""

import argparse
import heapq
from pathlib import Path

import numpy as np

from data.history import from_frame
from data.readers import READERS
from data.readers.benchmark_csv import read_pools
from models import LIFETIME_MODELS, Training
from models.lifetime.hazard import HazardLifetimes
from simulator.workload import Workload, make_workload
from solver.lives import Cohorts, survival_at

INSTANTS_H = (1, 4, 16, 24, 48)
Siblings = dict[int, list[tuple[np.ndarray, float]]]


def siblings_of(workload: Workload) -> Siblings:
    """(forecast curve, duration) of each job, by burst; each job started when submitted."""
    training = Training(workload.cluster.quotas(), workload.past, workload.unended, workload.train_until_s)
    model = LIFETIME_MODELS["hazard"](training)
    if not isinstance(model, HazardLifetimes):
        raise TypeError("the hazard is another class now")
    cohorts, found = Cohorts(), {}
    running: list[tuple[float, int]] = []
    for place, job in enumerate(workload.jobs):
        while running and running[0][0] <= job.submit_s:
            end_s, ended = heapq.heappop(running)
            other = workload.jobs[ended]
            model.ended(other, end_s, workload.outcomes[other.job_id].duration_s)
        model.submitted(job, job.submit_s)
        model.started(job, job.submit_s)
        duration_s = workload.outcomes[job.job_id].duration_s
        heapq.heappush(running, (job.submit_s + duration_s, place))
        found.setdefault(cohorts.of(job), []).append((np.asarray(model.survival(job)), duration_s))
    return found


def kinship(found: Siblings, instant_s: float) -> float:
    products = spreads = 0.0
    for burst in found.values():
        curves = np.array([curve for curve, _ in burst])
        alive = survival_at(curves, np.full((len(burst), 1), instant_s))[:, 0]
        residual = np.array([duration > instant_s for _, duration in burst]) - alive
        spread = np.sqrt(np.maximum(alive * (1.0 - alive), 0.0))
        products += residual.sum() ** 2 - (residual**2).sum()
        spreads += spread.sum() ** 2 - (spread**2).sum()
    return products / spreads


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=Path, required=True)
    parser.add_argument("--pools", type=Path, required=True)
    parser.add_argument("--train-until", type=float, required=True)
    parser.add_argument("--until", type=float, required=True)
    chosen = parser.parse_args()
    quotas = read_pools(chosen.pools)
    frame = READERS["csv"](chosen.jobs, quotas).frame
    early = from_frame(frame[frame["submit_s"] < chosen.until], source=str(chosen.jobs), quotas=quotas)
    cut_s = chosen.train_until
    found = siblings_of(make_workload(early, quotas, train_until_s=cut_s, eval_from_s=cut_s))
    measured = [kinship(found, 3600.0 * hours) for hours in INSTANTS_H]
    for hours, value in zip(INSTANTS_H, measured, strict=True):
        print(f"{hours:3} h  {value:.2f}")
    print(f"median {np.median(measured):.2f}")


if __name__ == "__main__":
    main()
