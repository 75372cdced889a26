"""Features: causal, each of them, and what each group of them says."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from domain.jobs import Job
from models.lifetime import features as feature_module
from models.lifetime.features import CLOCK, PLAIN, RELATIVE, FeatureHistory, JobFeatures
from models.lifetime.keys import KEY_KINDS, NUM_CHAINS
from models.lifetime.limit_use import LimitUse
from models.lifetime.names import SimilarNames, similarity, template_of, tokens_of
from models.lifetime.recent import RecentLives
from models.lifetime.siblings import Siblings
from models.lifetime.tables import MEMORIES, DecayingTables

DAY_S = 86_400.0

# (job, start, duration) in any order.
Lived = list[tuple[Job, float, float]]


def record(seed: int, num_jobs: int = 500, span_s: float = DAY_S) -> Lived:
    """Jobs that have everything a record can say, with waits between submit and start."""
    rng = np.random.default_rng(seed)
    submits_s = np.sort(rng.random(num_jobs)) * span_s
    lived = []
    for k, submit_s in enumerate(submits_s):
        stem = str(rng.choice(["train_bert", "train_bert_large", "eval-gpt", "sweep"]))
        job = Job(
            f"j{seed}-{k:04}",
            str(rng.choice(["a", "b"])),
            float(submit_s),
            int(rng.choice([1, 4])),
            user=f"u{rng.integers(3)}",
            name=f"{stem}_{rng.integers(20)}.sh",
            model=str(rng.choice(["bert", "gpt"])),
            limit_s=float(rng.choice([600.0, 3600.0])),
            gpu_type=str(rng.choice(["v100", "a100"])),
            array_id=f"array{k // 10}" if k % 3 == 0 else None,
        )
        lived.append((job, float(submit_s + rng.exponential(300.0)), float(rng.exponential(900.0))))
    return lived


def told(lived: Lived, until_s: float, history: FeatureHistory | None = None) -> dict[str, JobFeatures]:
    """Features of each job submitted by `until_s`, the facts told in their order."""
    history = FeatureHistory() if history is None else history
    facts = [(job.submit_s, 1, job.job_id, job, 0.0) for job, _, _ in lived]
    facts += [(start_s, 2, job.job_id, job, 0.0) for job, start_s, _ in lived]
    facts += [(start_s + life_s, 3, job.job_id, job, life_s) for job, start_s, life_s in lived]
    found = {}
    for at_s, kind, job_id, job, life_s in sorted(facts, key=lambda fact: fact[:3]):
        if at_s > until_s:
            break
        if kind == 1:
            found[job_id] = history.submitted(job, at_s).features
        elif kind == 2:
            history.started(job, at_s)
        else:
            history.ended(job, at_s, life_s)
    return found


def numbers(features: JobFeatures) -> np.ndarray:
    parts = (features.logits.ravel(), features.exposures, features.relative, features.plain, features.atoms)
    return np.concatenate([np.asarray(part, np.float64) for part in parts])


def future_changes(lived: Lived, cut_s: float) -> list[Lived]:
    """The record with another future after `cut_s`: gone, with other jobs, with other starts and lives."""
    early = [one for one in lived if one[0].submit_s <= cut_s]
    known = [
        (job, start_s, life_s)
        if start_s + life_s <= cut_s
        else (job, start_s if start_s <= cut_s else start_s + 500.0, 9e5 + max(0.0, cut_s - start_s))
        for job, start_s, life_s in early
    ]
    others = [one for one in record(99, 100, 3 * DAY_S) if one[0].submit_s > cut_s]
    return [known, known + others]


def check_causal(compute: Callable[[Lived, float], dict[str, np.ndarray]]) -> None:
    """No feature of a job submitted by the cut may change with what happens after it.

    Args:
        compute: features of all jobs of a record that were submitted by an instant.
    """
    lived = record(1)
    for cut_s in (0.3 * DAY_S, 0.7 * DAY_S):
        whole = compute(lived, 2 * DAY_S)
        for other in future_changes(lived, cut_s):
            for until_s in (cut_s, 4 * DAY_S):
                changed = compute(other, until_s)
                for job, _, _ in lived:
                    if job.submit_s <= cut_s:
                        np.testing.assert_array_equal(changed[job.job_id], whole[job.job_id])


def as_numbers(lived: Lived, until_s: float) -> dict[str, np.ndarray]:
    return {job_id: numbers(features) for job_id, features in told(lived, until_s).items()}


def test_no_feature_changes_with_the_future():
    check_causal(as_numbers)


def test_every_feature_is_there_to_be_checked():
    """Each is known for some job of the record and differs between jobs, else the check above is empty."""
    found = [numbers(features) for features in told(record(1), 2 * DAY_S).values()]
    longest = max(map(len, found))
    fixed = np.array([np.pad(one, (0, longest - len(one)), constant_values=np.nan) for one in found])
    number = NUM_CHAINS * len(MEMORIES) * 58 + 58
    table = fixed[:, number : number + len(RELATIVE) + len(PLAIN)]
    for place, name in enumerate((*RELATIVE, *PLAIN)):
        values = table[~np.isnan(table[:, place]), place]
        assert len(set(values.tolist())) > 1 or name == "weekday", name


@pytest.mark.parametrize("leak", ["own life", "own start", "what runs at the end", "jobs to come"])
def test_a_leak_is_caught(leak):
    def compute(lived: Lived, until_s: float) -> dict[str, np.ndarray]:
        leaks = {
            "own life": lambda one: one[2],
            "own start": lambda one: one[1],
            "what runs at the end": lambda _: sum(
                start_s + life_s > 0.9 * DAY_S for _, start_s, life_s in lived
            ),
            "jobs to come": lambda one: sum(
                one[0].submit_s < job.submit_s < one[0].submit_s + 7200.0 for job, _, _ in lived
            ),
        }
        found = as_numbers(lived, until_s)
        return {
            one[0].job_id: np.append(found[one[0].job_id], leaks[leak](one))
            for one in lived
            if one[0].job_id in found
        }

    with pytest.raises(AssertionError):
        check_causal(compute)


def test_a_leak_inside_the_history_is_caught(monkeypatch):
    """A history that reads the clock of the last job it will ever be told of."""
    truth = {job.job_id: life_s for job, _, life_s in record(1)}
    honest = feature_module.QueueState.features

    def leaky(self: feature_module.QueueState, job: Job) -> list[float]:
        return [*honest(self, job)[:-1], truth.pop(job.job_id, 0.0)]

    monkeypatch.setattr(feature_module.QueueState, "features", leaky)
    with pytest.raises(AssertionError):
        check_causal(as_numbers)


def relative(features: JobFeatures, name: str) -> float:
    return float(features.relative[RELATIVE.index(name)])


def plain(features: JobFeatures, name: str) -> float:
    return float(features.plain[PLAIN.index(name)])


def a_job(job_id: str, submit_s: float, **known: str | float | None) -> Job:
    return Job(job_id, "a", submit_s, 1, **known)  # type: ignore[arg-type]


def lived_through(history: FeatureHistory, job: Job, life_s: float) -> None:
    history.submitted(job, job.submit_s)
    history.started(job, job.submit_s)
    history.ended(job, job.submit_s + life_s, life_s)


# Names.


def test_a_template_is_a_name_without_its_numbers():
    assert template_of("run_12-3.sh") == "run_#-#.sh"
    assert template_of("run.sh") == "run.sh"
    assert tokens_of("Train_bert-#.sh") == {"train", "bert", "sh"}
    assert similarity(tokens_of("train_bert_#"), tokens_of("train-bert-large")) == pytest.approx(2 / 3)
    assert similarity(tokens_of("#"), tokens_of("#")) == 0.0


def test_a_new_name_leans_on_the_most_similar_one_of_its_group():
    names = SimilarNames()
    assert names.used(("user", "u"), "train_bert.sh") is None
    assert names.used(("user", "u"), "eval_gpt.sh") is None
    assert names.used(("user", "u"), "train_bert_large.sh") == "train_bert.sh"
    assert names.used(("user", "v"), "train_bert_small.sh") is None, "another group"
    names.used(("user", "u"), "train_bert_large_new.sh")
    assert names.used(("user", "u"), "train_bert_large.sh") == "train_bert.sh", "decided once"


def test_lives_of_a_similar_name_speak_for_a_new_one():
    history = FeatureHistory()
    for k in range(8):
        lived_through(history, a_job(f"l{k}", 1000.0 * k, user="u", name=f"train_bert_{k}"), 50.0)
        lived_through(history, a_job(f"s{k}", 1000.0 * k + 100.0, user="u", name=f"sweep_{k}"), 800.0)
    new = history.submitted(a_job("new", 9e3, user="u", name="train_bert_large_1"), 9e3).features
    strange = history.submitted(a_job("strange", 9e3, user="u", name="plot"), 9e3).features
    assert relative(new, "mean similar name") == pytest.approx(math.log(50.0), abs=0.01)
    assert math.isnan(relative(strange, "mean similar name"))
    assert math.isnan(relative(new, "mean user-name"))
    # The tables: hazard of ending within a minute is higher than for a name that is like none.
    in_a_minute = slice(0, 9)
    assert new.logits[1, in_a_minute].max() > strange.logits[1, in_a_minute].max() + 0.5


def test_an_exact_name_is_told_from_its_template():
    history = FeatureHistory()
    lived_through(history, a_job("one", 0.0, user="u", name="run_1"), 50.0)
    lived_through(history, a_job("two", 100.0, user="u", name="run_2"), 500.0)
    again = history.submitted(a_job("again", 1e3, user="u", name="run_1"), 1e3).features
    assert relative(again, "mean exact name") == pytest.approx(math.log(50.0), abs=0.01)
    assert relative(again, "last user-name") == pytest.approx(math.log(500.0), abs=0.01)


# Limits.


def test_limits_are_read_as_their_user_uses_them():
    history = FeatureHistory()
    for k in range(10):
        lived_through(history, a_job(f"w{k}", 2e4 * k, user="wasteful", limit_s=10_000.0), 100.0)
        lived_through(history, a_job(f"e{k}", 2e4 * k + 200.0, user="exact", limit_s=10_000.0), 10_000.0)
    wasteful = history.submitted(a_job("w", 3e5, user="wasteful", limit_s=50_000.0), 3e5).features
    exact = history.submitted(a_job("e", 3e5, user="exact", limit_s=50_000.0), 3e5).features
    stranger = history.submitted(a_job("s", 3e5, user="s", limit_s=50_000.0), 3e5).features
    limit = "limit as used by the user"
    assert relative(wasteful, limit) == pytest.approx(math.log(500.0), abs=0.01)
    assert relative(exact, limit) == pytest.approx(math.log(50_000.0), abs=0.01)
    assert math.isnan(relative(stranger, limit))
    assert relative(stranger, "limit") == pytest.approx(math.log(50_000.0), abs=0.01)
    assert relative(wasteful, "limit as used by all") == relative(stranger, "limit as used by all")
    assert plain(wasteful, "share at limit of the user") == 0.0
    assert plain(exact, "share at limit of the user") == 1.0


def test_a_job_without_a_limit_says_nothing_of_limits():
    use = LimitUse()
    use.ended(("use", "u"), None, 3.0)
    relative_use, plain_use = use.features(("use", "u"), 60.0)
    assert relative_use[0] == pytest.approx(math.log(60.0))
    assert all(map(math.isnan, (*relative_use[1:], *plain_use)))
    assert all(map(math.isnan, use.features(None, None)[0]))


# Siblings.


@pytest.mark.parametrize("array_id", [None, "array"])
def test_siblings_are_counted_with_what_became_of_them(array_id):
    history = FeatureHistory()
    jobs = [a_job(f"j{k}", 10.0 * k, user="u", array_id=array_id) for k in range(5)]
    for job in jobs[:3]:
        history.submitted(job, job.submit_s)
        history.started(job, 100.0 + job.submit_s)
    history.ended(jobs[0], 150.0, 50.0)
    features = history.submitted(jobs[3], 300.0).features
    assert plain(features, "siblings") == pytest.approx(math.log1p(3), abs=1e-3)
    assert plain(features, "siblings running") == pytest.approx(math.log1p(2), abs=1e-3)
    assert plain(features, "siblings ended") == pytest.approx(math.log1p(1), abs=1e-3)
    assert relative(features, "sibling mean") == pytest.approx(math.log(50.0), abs=0.01)
    assert relative(features, "sibling age") == pytest.approx(math.log(300.0 - 115.0), abs=0.01)
    history.stopped(jobs[1], 310.0)
    after = history.submitted(jobs[4], 320.0).features
    assert plain(after, "siblings running") == pytest.approx(math.log1p(1), abs=1e-3)


def test_a_burst_ends_after_ten_minutes_and_an_array_does_not():
    history = FeatureHistory()
    for array_id, number in ((None, 0.0), ("array", 1.0)):
        lived_through(history, a_job(f"one {array_id}", 0.0, user="u", array_id=array_id), 5.0)
        late = history.submitted(a_job(f"late {array_id}", 1e4, user="u", array_id=array_id), 1e4).features
        assert plain(late, "siblings") == pytest.approx(math.log1p(number), abs=1e-3)


def test_a_member_of_an_earlier_burst_does_not_count_in_the_next():
    siblings, job = Siblings(), a_job("j", 0.0, user="u")
    kin, first = siblings.family_of(job, 0.0)
    siblings.submitted(first, 0.0)
    _, second = siblings.family_of(job, 5_000.0)
    siblings.submitted(second, 5_000.0)
    siblings.ended(kin, first.number, 3.0)
    assert second.ended == 0
    siblings.ended(kin, second.number, 3.0)
    assert second.ended == 1


# The queue, the clock, and other keys.


def test_the_queue_s_state_is_that_before_the_job():
    history = FeatureHistory()
    wide = Job("wide", "b", 0.0, 8)
    for job in (wide, a_job("r", 1.0), a_job("w", 2.0)):
        history.submitted(job, job.submit_s)
    history.started(wide, 3.0)
    history.started(a_job("r", 1.0), 3.0)
    features = history.submitted(a_job("new", 10.0), 10.0).features
    for name, number in (
        ("jobs waiting of the pool", 1),
        ("jobs running of the pool", 1),
        ("GPUs running of the pool", 1),
        ("jobs waiting of the cluster", 1),
        ("jobs running of the cluster", 2),
        ("GPUs running of the cluster", 9),
    ):
        assert plain(features, name) == pytest.approx(math.log1p(number), abs=1e-3), name
    history.withdrawn(a_job("w", 2.0), 11.0)
    history.stopped(wide, 11.0)
    history.ended(wide, 12.0, 8.0)
    history.ended(a_job("r", 1.0), 12.0, 9.0)
    history.ended(a_job("new", 10.0), 12.0, 1.0)
    assert all(counts == [0, 0, 0, 0] for counts in history.queue.counts.values())
    assert not history.running


def test_the_clock_is_that_of_the_record():
    features = FeatureHistory().submitted(a_job("j", 8.25 * DAY_S), 8.25 * DAY_S).features
    assert [plain(features, name) for name in CLOCK] == [6.0, 1.0]


@pytest.mark.parametrize(("kind", "known"), [("model", {"model": "bert"}), ("type", {"gpu_type": "a100"})])
def test_models_and_types_have_lives_of_their_own(kind, known):
    history = FeatureHistory()
    lived_through(history, a_job("one", 0.0, **known), 50.0)
    lived_through(history, a_job("two", 100.0), 5_000.0)
    features = history.submitted(a_job("new", 1e4, **known), 1e4).features
    assert relative(features, f"mean {kind}") == pytest.approx(math.log(50.0), abs=0.01)
    assert plain(features, f"since end {kind}") == pytest.approx(math.log1p(1e4 - 50.0), abs=0.01)


def test_the_most_alike_lives_come_first():
    history = FeatureHistory()
    lived_through(history, a_job("own", 0.0, user="u", name="n"), 50.0)
    lived_through(history, a_job("other", 100.0, user="v", name="m"), 700.0)
    atoms = history.submitted(a_job("new", 1e4, user="u", name="n"), 1e4).features.atoms
    assert math.exp(atoms[0]) == pytest.approx(50.0)
    assert math.exp(atoms[-1]) == pytest.approx(50.0)
    assert any(math.exp(atom) == pytest.approx(700.0) for atom in atoms)


# Bounds.


def test_the_tables_used_longest_ago_are_forgotten():
    tables = DecayingTables(most=3)
    for key in ("a", "b", "c"):
        tables.credit((key,), 0, 5, has_died=True)
    tables.credit(("a",), 0, 5, has_died=True)
    tables.credit(("d",), 0, 1, has_died=False)
    assert [key in tables for key in "abcd"] == [True, False, True, True]
    _, exposed = tables.hazards((("d",),))
    assert exposed[:2].tolist() == [1.0, 0.0], "the place of the forgotten one is wiped"


def test_the_lives_used_longest_ago_are_forgotten():
    lives = RecentLives(most=2)
    for key in ("a", "b"):
        lives.used((key,)).add(1.0, 0.0)
    lives.used(("a",))
    lives.used(("c",))
    assert list(lives.by_key) == [("a",), ("c",)]


def test_many_names_do_not_grow_the_memory(monkeypatch):
    monkeypatch.setattr(feature_module, "MOST_OPEN", 20)
    history = FeatureHistory(tables=DecayingTables(most=50), lives=RecentLives(most=60))
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    for k in range(300):
        name = "".join(rng.choice(letters, 8))
        job = a_job(f"j{k}", 10.0 * k, user=f"u{k}", name=name)
        history.submitted(job, job.submit_s)
        history.started(job, job.submit_s)
        if k % 2:
            history.ended(job, job.submit_s + 5.0, 5.0)
    assert len(history.tables) == 50
    assert len(history.lives.by_key) == 60
    assert len(history.open_jobs) <= 20
    assert history.queue.counts[()][0] + history.queue.counts[()][2] == len(history.open_jobs)


def test_each_kind_of_key_has_its_features():
    for kind in KEY_KINDS:
        assert f"mean {kind}" in RELATIVE
        assert f"since end {kind}" in PLAIN


# Rates.


def test_a_slower_job_is_as_old_as_its_work():
    """It has done 800 s by 1,100 s: it has passed the edge of 512 s, and ended neither there nor beyond."""
    slow, alone = FeatureHistory(), FeatureHistory()
    for history, now_s in ((slow, 1100.0), (alone, 800.0)):
        job = a_job("j", 0.0, user="u", name="n")
        history.submitted(job, 0.0)
        history.started(job, 0.0)
        if history is slow:
            history.rate_changed(job, 500.0, 0.5)
            history.rate_changed(a_job("unknown", 0.0), 500.0, 0.5)
            history.submitted(a_job("early", 520.0), 520.0)
            assert history.open_jobs["j"].next_bin == 0, "510 s of work"
        history.submitted(a_job(f"look{now_s}", now_s), now_s)
    one, other = slow.open_jobs["j"], alone.open_jobs["j"]
    assert one.age_s(1100.0) == other.age_s(800.0) == 800.0
    assert one.next_bin == other.next_bin > 0
    slow.stopped(one.job, 1100.0)
    assert (one.reached_s, one.stopped_s) == (800.0, 1100.0)
    assert one.age_s(5000.0) == 800.0


def test_ages_of_siblings_and_of_those_that_run_are_work():
    history = FeatureHistory()
    for name in ("one", "two", "three"):
        job = a_job(name, 0.0, user="u", name="n")
        history.submitted(job, 0.0)
        history.started(job, 100.0)
    history.rate_changed(a_job("two", 0.0), 200.0, 0.5)
    history.rate_changed(a_job("three", 0.0), 150.0, 0.25)
    history.rate_changed(a_job("three", 0.0), 250.0, 1.0)
    new = history.submitted(a_job("new", 300.0, user="u", name="n"), 300.0)
    relative = dict(zip(RELATIVE, new.features.relative.tolist(), strict=True))
    mean_s = (200.0 + 150.0 + 125.0) / 3
    assert relative["sibling age"] == pytest.approx(math.log(mean_s), rel=1e-3)
    middle, oldest = new.features.relative.tolist()[-2:]
    assert (middle, oldest) == pytest.approx((math.log(150.0), math.log(200.0)), rel=1e-3)
    for name in ("one", "two", "three"):
        history.ended(a_job(name, 0.0, user="u", name="n"), 400.0, 200.0)
    family = history.siblings.families[new.kin]
    assert (family.running, family.sum_start_s, family.lost_rate, family.lost_from_s) == (0, 0.0, 0.0, 0.0)
