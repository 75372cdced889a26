"""What-ifs and sweeps over HTTP, answered by the child in this process, on both databases."""

import json

import pytest
from service import NOON, assert_problem
from sqlalchemy import MetaData, select

from app.children import what_if as child
from app.services import what_if, what_if_files
from app.store import history
from app.store import runs as store
from app.store.engine import reading, transaction
from app.store.tables import HistoryImportRow, RunStatus
from domain.questions import Futures, Question

MORE = {"kind": "quota", "pool": "vision", "by_gpus": 2}
ITS_OWN = {"what_ifs", "what_if_sweeps", "what_if_figures", "runs", "run_events"}
EMPTY = dict.fromkeys(history.JOB_COLUMNS)


def jobs():
    for number in range(120):
        submit_s = 3600.0 * number + 60.0 * (number % 7)
        yield EMPTY | {
            "job_id": f"j{number:03}",
            "pool": ("vision", "speech")[number % 3 == 0],
            "submit_s": submit_s,
            "num_gpus": 1 + number % 2,
            "duration_s": 2000.0 + 2500.0 * (number % 5),
            "user": f"u{number % 4}",
        }


@pytest.fixture
def asked(service):
    service.cluster(policy="reclaim", settings={"requeueable": "1"})
    service.inventory({"vision": 2, "speech": 2})
    with transaction(service.database.engine) as session:
        history.add(
            session,
            HistoryImportRow(import_id="i", cluster="c", file_format="csv", faults=[], created_at=NOON),
        )
        history.add_jobs(session, "c", "i", jobs())
    return service


def post(service, path="what-ifs", **body):
    return service.client.post(f"/v1/clusters/c/{path}", json=body)


def get(service, path):
    answer = service.client.get(f"/v1/clusters/c/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def carry_out(service, run_id, monkeypatch):
    """What a worker does with a run."""
    engine = service.database.engine
    with transaction(engine) as session:
        run = store.lock(session, run_id)
        run.status, run.worker, arguments = RunStatus.RUNNING.value, "w", run.arguments
    monkeypatch.setenv("ANTECAST_DATABASE_URL", service.database.url)
    answer = json.loads(json.dumps(child.answer(what_if.load(engine, "c", arguments))))
    result = what_if.publish(engine, service.clock, run_id, arguments, answer)
    with transaction(engine) as session:
        assert store.keep_result(session, run_id, "w", result)
        assert store.succeed(session, run_id, "w", service.clock.now())
    return answer


def content(service):
    """Every row of every table that is no what-if's."""
    tables = MetaData()
    with service.database.engine.connect() as connection:
        tables.reflect(connection)
        return {
            name: sorted(map(repr, connection.execute(select(table))))
            for name, table in tables.tables.items()
            if name not in ITS_OWN
        }


def test_an_answer_is_kept_compared_and_changes_nothing_else(asked, monkeypatch):
    before = content(asked)
    assert {"clusters", "pools", "history_jobs", "log"} <= set(before)
    runs = [
        post(asked, changes=[MORE], name="more").json()["run_id"],
        post(asked, changes=[{**MORE, "by_gpus": 4}], futures={"count": 3, "days": 2}, seed=3).json()[
            "run_id"
        ],
        post(asked, quotas={"vision": 3, "speech": 1}).json()["run_id"],
    ]
    waiting = get(asked, f"what-ifs/{runs[0]}")
    assert (waiting["name"], waiting["status"], waiting["answer"]) == ("more", "queued", None)
    answers = [carry_out(asked, run_id, monkeypatch) for run_id in runs]
    assert content(asked) == before
    seen = get(asked, f"what-ifs/{runs[0]}")
    assert seen["answer"] == answers[0]
    assert seen["status"] == "succeeded"
    assert answers[0]["changed"]["mean_queue_delay_s"] < answers[0]["baseline"]["mean_queue_delay_s"]
    results = [asked.client.get(f"/v1/runs/{run_id}").json()["result"] for run_id in runs]
    assert results[0]["what_if_id"] == runs[0]
    assert results[2] == answers[2]  # quotas without changes: the whole answer, as ever
    side = get(asked, f"what-ifs/compare?ids={runs[1]},{runs[0]}&figures=mean_jct_s,nix")
    assert [one["what_if_id"] for one in side["what_ifs"]] == [runs[1], runs[0]]
    (figure, nix) = side["figures"]
    assert figure["values"][1]["difference"] == pytest.approx(answers[0]["difference"]["mean_jct_s"])
    assert figure["values"][0]["range_low"] == pytest.approx(
        answers[1]["intervals"]["mean_jct_s"]["range_low"]
    )
    assert nix["values"] == [None, None]
    assert side["is_same_base"]
    of_pool = get(asked, f"what-ifs/compare?ids={runs[0]}&pool=vision")
    own = next(pool for pool in answers[0]["pools"] if pool["pool"] == "vision")
    (wait,) = of_pool["figures"][0]["values"]
    assert wait["baseline"] == pytest.approx(own["baseline"]["mean_queue_delay_s"])


@pytest.mark.parametrize("futures", [None, {"count": 2, "days": 2, "from_days": 3}])
def test_files_and_service_give_the_same_json(asked, monkeypatch, tmp_path, futures):
    run_id = post(asked, changes=[MORE], **({} if futures is None else {"futures": futures})).json()["run_id"]
    ours = carry_out(asked, run_id, monkeypatch)
    columns = ("job_id", "pool", "submit_s", "num_gpus", "duration_s", "user")
    lines = [",".join(columns), *(",".join(str(job[name]) for name in columns) for job in jobs())]
    (tmp_path / "jobs.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "pools.csv").write_text("pool,quota_gpus\nvision,2\nspeech,2\n")
    origin = asked.client.get("/v1/clusters/c").json()["clock_origin"]
    cluster = what_if_files.Cluster(
        tmp_path / "jobs.csv",
        tmp_path / "pools.csv",
        policy="reclaim",
        settings={"requeueable": "1"},
        origin=NOON.fromisoformat(origin),
    )
    drawn = None if futures is None else Futures(**futures)
    theirs = what_if_files.ask(cluster, Question([MORE], futures=drawn))
    assert json.dumps(theirs, sort_keys=True) == json.dumps(ours, sort_keys=True)


def test_what_ifs_are_listed_newest_first_a_page_at_a_time(asked):
    ids = []
    for gpus in range(1, 4):
        asked.clock.wait(1)
        ids.append(post(asked, changes=[{**MORE, "by_gpus": gpus}]).json()["run_id"])
    page = get(asked, "what-ifs?limit=2")
    rest = get(asked, f"what-ifs?limit=2&before={page['next']}")
    assert [one["what_if_id"] for one in page["items"] + rest["items"]] == ids[::-1]
    assert rest["next"] is None
    assert_problem(asked.client.get("/v1/clusters/c/what-ifs?before=nix"), 404, "unknown-resource")
    assert_problem(asked.client.get("/v1/clusters/c/what-ifs/nix"), 404, "unknown-resource")
    assert_problem(asked.client.get("/v1/clusters/nix/what-ifs"), 404, "unknown-cluster")
    assert_problem(asked.client.get("/v1/clusters/c/what-ifs/compare?ids=nix"), 404, "unknown-resource")
    assert_problem(asked.client.get("/v1/clusters/c/what-ifs/compare?ids=,"), 422, "invalid")


EPS = {"name": "eps", "change": {"kind": "settings", "set": {"requeueable": "$"}}, "values": [0.5, 1]}
QUOTA = {"name": "quota", "change": {**MORE, "by_gpus": "$"}, "values": [0, 1, 2]}


def test_a_sweep_is_runs_of_its_own_and_is_cancelled_as_a_whole(asked, monkeypatch):
    answer = post(asked, "what-if-sweeps", parameters=[EPS, QUOTA], days=3, name="grid")
    assert answer.status_code == 202, answer.text
    sweep = answer.json()
    assert answer.headers["location"] == f"/v1/clusters/c/what-if-sweeps/{sweep['sweep_id']}"
    assert [point["point"] for point in sweep["points"]] == [
        {"eps": eps, "quota": quota} for eps in (0.5, 1) for quota in (0, 1, 2)
    ]
    ids = [point["what_if_id"] for point in sweep["points"]]
    assert sorted(ids) == sorted(run["run_id"] for run in get(asked, "runs")["items"])
    carry_out(asked, ids[4], monkeypatch)
    seen = get(asked, f"what-if-sweeps/{sweep['sweep_id']}")
    assert (seen["counts"]["succeeded"], seen["counts"]["queued"]) == (1, 5)
    assert seen["progress"] == pytest.approx(1 / 6)
    path = f"/v1/clusters/c/what-if-sweeps/{sweep['sweep_id']}/cancel"
    cancelled = asked.client.post(path).json()
    assert (cancelled["counts"]["succeeded"], cancelled["counts"]["cancelled"]) == (1, 5)
    assert cancelled["progress"] == 1.0
    assert asked.client.post(path).json() == cancelled
    listed = get(asked, "what-if-sweeps?limit=1")
    assert (listed["items"], listed["next"]) == ([cancelled], None)
    assert get(asked, f"what-ifs/{ids[4]}")["answer"] is not None
    assert_problem(asked.client.get("/v1/clusters/c/what-if-sweeps/nix"), 404, "unknown-resource")


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("what-ifs", {"changes": []}, "nothing is different"),
        ("what-ifs", {"changes": [MORE, {"kind": "nix"}]}, "changes[1]: unknown-kind"),
        ("what-ifs", {"changes": [{**MORE, "pool": "nix"}]}, "changes[0] (quota): unknown-pool"),
        (
            "what-ifs",
            {"changes": [{"kind": "settings", "set": {"nix": 1}}]},
            "changes[0] (settings): refused",
        ),
        ("what-ifs", {"changes": [{"kind": "policy", "policy": "gssf"}]}, "know the future"),
        ("what-ifs", {"changes": [MORE], "quotas": {"vision": 1}}, "exclude each other"),
        ("what-ifs", {"quotas": {"vision": 1}, "seed": 1}, "seed goes with changes"),
        ("what-ifs", {"changes": [MORE], "futures": {"count": 0}}, "futures.count"),
        (
            "what-ifs",
            {
                "changes": [
                    {"kind": "no_lending", "from": "01:00", "to": "02:00", "every": "day"},
                    {"kind": "policy", "policy": "maxmin"},
                ]
            },
            "changes[1] (policy): refused: policy maxmin knows no guests",
        ),
        ("what-if-sweeps", {"parameters": [{**QUOTA, "change": MORE}]}, "where the value goes"),
        ("what-if-sweeps", {"parameters": [QUOTA, QUOTA]}, "names of their own"),
        (
            "what-if-sweeps",
            {"parameters": [{**QUOTA, "values": list(range(60))}, EPS]},
            "120 points, must have 1 to 64",
        ),
        ("what-if-sweeps", {"parameters": [{**QUOTA, "values": [0, "x"]}]}, "by_gpus is 'x'"),
    ],
)
def test_what_makes_no_sense_is_refused_and_leaves_nothing(asked, path, body, words):
    answer = post(asked, path, **body)
    assert answer.status_code == 422, answer.text
    assert words in answer.json()["detail"]
    assert get(asked, "runs")["items"] == get(asked, "what-ifs")["items"] == []
    assert get(asked, "what-if-sweeps")["items"] == []


def test_what_the_cluster_no_longer_allows_is_refused_when_it_is_worked_on(asked):
    run_id = post(asked, changes=[MORE]).json()["run_id"]
    asked.inventory({"speech": 2})
    with reading(asked.database.engine) as session:
        arguments = store.get(session, run_id).arguments
    with pytest.raises(Exception, match="unknown-pool"):
        what_if.load(asked.database.engine, "c", arguments)
