"""The rules of packing by brute force, from how they are written: for tests of those who know them better."""

import itertools

MODELS = ("x", "y", "z")
TABLE = {("x", "x"): 0.5, ("x", "y"): 0.9, ("y", "x"): 0.7, ("y", "z"): 0.6, ("z", "y"): 0.8}
"""Rate of a model beside another; pairs that are missing do not fit."""


def rates(model, beside):
    return TABLE.get((model, beside))


def may_run(running, all_gpus):
    """Whether jobs may run side by side: (job, GPUs) each; straight from the rules."""
    for gpu in all_gpus:
        here = [job for job, gpus in running if gpu in gpus]
        if len(here) > 2 or (len(here) == 2 and rates(here[0].model, here[1].model) is None):
            return False
    shares = {
        (a.job_id, b.job_id)
        for (a, mine), (b, its) in itertools.permutations(running, 2)
        if set(mine) & set(its)
    }
    for group in groups([job.job_id for job, _ in running], shares):
        jobs = {job.job_id: (job, set(gpus)) for job, gpus in running if job.job_id in group}
        if len(jobs) > 5 or not any(is_centre(one, jobs, shares) for one in jobs):
            return False
    return True


def groups(job_ids, shares):
    left = [{job_id} for job_id in job_ids]
    for a, b in shares:
        one, two = next(g for g in left if a in g), next(g for g in left if b in g)
        if one is not two:
            left.remove(two)
            one |= two
    return left


def is_centre(centre, jobs, shares):
    width, gpus = jobs[centre][0].num_gpus, jobs[centre][1]
    for one, (job, its) in jobs.items():
        if one == centre:
            continue
        if any((one, other) in shares for other in jobs if other != centre):
            return False
        if job.num_gpus > width or (job.num_gpus == width and its != gpus):
            return False
    return True
