"""Telemetry of GPUs: how series are read, whom labels and histories name, and what windows leave open."""

import gzip

import pytest
from support import REPOSITORY
from telemetry_support import END_S, USED, answer, found, gpu, mig, series, verdicts

from data.records import AttemptRecord
from data.shelf.arrow import table_of
from data.telemetry.allocations import Allocation, running_at
from data.telemetry.idle import Thresholds, Verdict
from data.telemetry.prometheus import holder_of, read_telemetry
from domain.attempts import EndCause
from domain.errors import InputError

HOUR_S = 3600.0


def attempt(raw_id: str, **told) -> AttemptRecord:
    told = {"start_s": END_S - HOUR_S, "cause": EndCause.NOT_ENDED, "gpus_given_milli": 2000} | told
    return AttemptRecord("c", raw_id, told.pop("submit_s", END_S - 2 * HOUR_S), **{"nodes": "n1"} | told)


def given_by(*attempts: AttemptRecord) -> list[tuple[str, str, int | None]]:
    return [(one.job_id, one.node, one.num_gpus) for one in running_at(table_of(attempts), END_S).found]


def test_attempts_that_run_at_the_instant_hold_their_nodes():
    assert given_by(
        attempt("over", end_s=END_S - 60.0, cause=EndCause.COMPLETED),
        attempt("over-later", end_s=END_S + 60.0, cause=EndCause.COMPLETED),
        attempt("to-come", start_s=END_S + 60.0),
        attempt("waits", start_s=None),
        attempt("cpu", gpus_given_milli=0),
        attempt("wide", nodes="n[1-2]", gpus_given_milli=16_000),
    ) == [("over-later", "n1", 2), ("wide", "n1", 8), ("wide", "n2", 8)]


def test_an_attempt_that_never_ended_is_over_when_a_newer_one_of_its_id_has_begun():
    stale = attempt("7", submit_s=END_S - 9 * HOUR_S, start_s=END_S - 8 * HOUR_S, nodes="old")
    assert given_by(stale, attempt("7")) == [("7", "n1", 2)]


def test_numbers_that_no_row_tells_stay_unknown():
    assert given_by(
        attempt("a", gpus_given_milli=None),
        attempt("b", gpus_given_milli=3000, nodes="n[1-2]"),
        attempt("c", gpus_given_milli=500),
        attempt("d", mig_profile="1g.10gb", gpus_given_milli=1000),
    ) == [("a", "n1", None), ("b", "n1", None), ("b", "n2", None), ("c", "n1", None), ("d", "n1", None)]


def test_jobs_of_no_readable_node_are_counted():
    told = running_at(table_of([attempt("a", nodes=None), attempt("b", nodes="n[3-1]")]), END_S)
    assert told.found == ()
    assert told.notes == {
        "running jobs of which no node is told": 1, "running jobs whose list of nodes cannot be read": 1
    }  # fmt: skip
    assert running_at(table_of([]), END_S).edge_s is None


@pytest.mark.parametrize(
    ("labels", "holder"),
    [
        ({"pod": "p", "namespace": "s", "container": "c"}, "s/p"),
        ({"pod": "p"}, "p"),
        ({"pod": "e", "namespace": "mon", "exported_pod": "p", "exported_namespace": "s"}, "s/p"),
        ({"pod": "e", "namespace": "mon", "container": "nvidia-dcgm-exporter"}, None),
        ({"namespace": "s", "container": "c"}, None),
        ({}, None),
    ],
)
def test_a_pod_is_named_by_labels_or_not_at_all(labels, holder):
    assert holder_of(labels) == holder


def test_empty_labels_are_absent_ones(tmp_path):
    findings = found(tmp_path, [*gpu(0, 0.0, pod="", namespace=""), *gpu(0, 0.0, gpu="1", pod="p")])
    assert verdicts(findings) == {"0": "free", "1": "held-empty"}


@pytest.mark.parametrize(
    ("name", "held"),
    [("0", {"0"}), ("GPU-a", {"0"}), ("1", {"1/1", "1/2"}), ("1/2", {"1/2"}), ("0/5", {"0"})],
)
def test_a_gpu_is_named_by_index_slice_or_uuid(tmp_path, name, held):
    result = [*gpu(0, 0.0, UUID="GPU-a")]
    result += [*mig(0, 0.0, "1", "3g.40gb", gpu="1"), *mig(0, 0.0, "2", "4g.40gb", gpu="1")]
    findings = found(tmp_path, result, [Allocation("j", "n1.example", name)])
    assert {gpu for gpu, verdict in verdicts(findings).items() if verdict == "held-empty"} == held


def test_a_pod_that_has_gone_holds_nothing_and_its_time_stays_its_own(tmp_path):
    gone = [one | {"values": one["values"][:-15]} for one in gpu(0, 0.0, pod="p")]
    after = [one | {"values": one["values"][-15:]} for one in gpu(0, 0.0)]
    findings = found(tmp_path, [*gone, *after])
    assert verdicts(findings) == {"0": "free"}
    assert findings.attributed == {"p": pytest.approx(0.25)}
    assert findings.unattributed == pytest.approx(0.25)


def test_two_jobs_on_one_gpu_divide_it_from_when_they_both_have_it(tmp_path):
    given = [Allocation("a", "n1", "0", 1, END_S - HOUR_S), Allocation("b", "n1", "0", 1, END_S - 840.0)]
    findings = found(tmp_path, gpu(0, 20.0), given)
    assert verdicts(findings) == {"0": "idle"}
    assert findings.attributed == {"a": pytest.approx(0.375), "b": pytest.approx(0.125)}
    assert findings.unattributed == 0.0


def test_what_a_job_has_is_not_its_pods_too(tmp_path):
    findings = found(tmp_path, gpu(0, 20.0, pod="p"), [Allocation("j", "n1", "0", 1, END_S - 840.0)])
    assert findings.attributed == {"j": pytest.approx(0.25), "p": pytest.approx(0.25)}


def test_a_pod_holds_also_where_the_last_sample_is_of_a_metric_without_its_label(tmp_path):
    named = gpu(None, 0.0, pod="p")
    early = [one | {"values": [[at_s - 5, value] for at_s, value in one["values"]]} for one in named]
    findings = found(tmp_path, [*gpu(0, None), *early])
    assert verdicts(findings) == {"0": "held-empty"}


def test_a_spark_of_use_does_not_make_an_idle_window_shorter(tmp_path):
    (one,) = found(tmp_path, gpu([0] * 100 + [30] + [0] * 20, 20.0), [Allocation("j", "n1", "0")]).gpus
    assert one.verdict is Verdict.IDLE
    assert one.since_s == END_S - 1800.0


@pytest.mark.parametrize(("num_gpus", "at_least"), [(1, {}), (2, {"n1": 1}), (None, {})])
def test_of_numbers_per_node_the_least_that_is_idle_is_told(tmp_path, num_gpus, at_least):
    result = [*gpu(90, 50.0), *gpu(0, 0.0, gpu="1"), *gpu(0, 0.0, gpu="2")]
    findings = found(tmp_path, result, [Allocation("j", "n1", None, num_gpus)])
    assert findings.idle_at_least == at_least
    assert verdicts(findings) == {"0": "working", "1": "unknown", "2": "unknown"}
    assert findings.unattributed == pytest.approx(1.5), "nobody knows which are the job's"


def test_too_few_samples_say_nothing(tmp_path):
    sparse = [one | {"values": one["values"][::30]} for one in gpu(0, 0.0)]
    late = [one | {"values": one["values"][-10:]} for one in gpu(0, 0.0, gpu="1")]
    findings = found(tmp_path, [*sparse, *late], [])
    assert {one.why for one in findings.gpus} == {"measured in a part of the window only"}
    shorter = found(tmp_path, late, [], Thresholds(window_s=600.0))
    assert verdicts(shorter) == {"1": "free"}


def test_what_one_metric_calls_idle_and_another_busy_is_working(tmp_path):
    findings = found(tmp_path, [*gpu(0, 20.0), *mig(0.4, 20.0, "", "")], [])
    assert findings.gpus[0].verdict is Verdict.WORKING
    assert findings.gpus[0].util_pct == pytest.approx(40.0)


def test_several_files_packed_or_not_are_one_telemetry_in_any_order(tmp_path):
    first, second = tmp_path / "a.json", tmp_path / "b.json.gz"
    first.write_text(answer(gpu(0, None)))
    second.write_bytes(gzip.compress(answer(gpu(None, 40.0)).encode()))
    (tmp_path / "c.json").write_text(answer([]))
    (one,) = read_telemetry([first, tmp_path / "c.json", second]).devices
    (other,) = read_telemetry([second, first, first]).devices
    assert set(one.tracks) == set(other.tracks)
    assert len(one.tracks) == 3
    assert all((one.tracks[name].values == other.tracks[name].values).all() for name in one.tracks)


def test_amounts_that_cannot_be_are_noted_and_not_measured(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(answer([series(USED, 2147483632, {}), *gpu(-3, None), series("up", 1, {})]))
    told = read_telemetry([path])
    assert told.devices[0].tracks == {}
    assert sorted(told.notes.values()) == [1, 121, 121]


def test_a_file_that_breaks_is_refused_whole(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(answer(gpu(0, 0.0))[:-40])
    with pytest.raises(InputError, match=r"t\.json: not-telemetry: after series 2: .*breaks"):
        read_telemetry([path])


def test_the_page_has_every_verdict_and_default():
    text = (REPOSITORY / "docs" / "idle.md").read_text(encoding="utf-8")
    for verdict in Verdict:
        assert f"| `{verdict.value}` | {verdict.meaning} |" in text.splitlines()
    limits = Thresholds()
    for line in (
        f"| `--window` | {limits.window_s / 60:.0f}m |",
        f"| `--low-util` | {limits.low_util_pct:.0f} % |",
        f"| `--low-memory` | {limits.low_memory_pct:.0f} % |",
        f"| `--held-memory` | {limits.held_memory_pct:.0f} % |",
        f"| `empty_mib` | {limits.empty_mib:.0f} MiB |",
        f"| `most_gap_s` | {limits.most_gap_s:.0f} s |",
        f"| `least_seen` | {limits.least_seen:g} |",
    ):
        assert line in text
