"""Forecasters of lives where jobs share their GPUs: they are as old as the work they have done."""

from domain.jobs import Job
from models.lifetime.hazard import HazardLifetimes


def test_a_job_that_shares_its_gpus_is_as_old_as_its_work():
    model, job = HazardLifetimes(), Job("j", "a", 0.0, 1)
    model.submitted(job, 0.0)
    model.started(job, 0.0)
    model.rate_changed(job, 100.0, 0.5)
    assert model._history.open_jobs["j"].age_s(300.0) == 200.0
