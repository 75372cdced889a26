"""Job history over HTTP and in the child process, on both databases."""

import gzip
import hashlib

import pytest
from service import NOON, assert_problem
from sqlmodel import func, select

from app.children.import_history import HistoryRefused, import_history
from app.children.read_export import Told
from app.runs.children import run_child
from app.services.import_history import CHUNK_BYTES, FORMATS, MAX_UNFINISHED, begin, load
from app.store import history, live
from app.store.engine import reading
from app.store.tables import HistoryChunkRow, RunRow
from data.formats import FORMATS as REGISTRY
from data.intake.format import Kind

CSV = {"Content-Type": "text/csv"}
HEADER = "job_id,pool,submit_s,num_gpus,duration_s,user,deadline_s,state\n"
GOOD = HEADER + "b,vision,60,2,30,ada,,completed\na,speech,0,1,100,,5000,failed\n"


def upload(service, text, **query):
    return service.client.post("/v1/clusters/c/history", content=text, params=query, headers=CSV)


def carry_out(service, answer):
    """What the worker does with the run."""
    with reading(service.database.engine) as session:
        request = load("c", session.get(RunRow, answer.json()["run_id"]).arguments)
    told = Told(request.get("tz"), request.get("origin_s"))
    return import_history(service.database.engine, "c", answer.json()["import_id"], service.clock, told)


def told(service, import_id):
    return service.client.get(f"/v1/clusters/c/history/{import_id}").json()


def jobs(service):
    with reading(service.database.engine) as session:
        return [tuple(row) for row in history.rows(session, "c")]


def num_chunks(service):
    with reading(service.database.engine) as session:
        return session.exec(select(func.count()).select_from(HistoryChunkRow)).one()


@pytest.fixture
def imports(service):
    service.cluster()
    return service


def test_a_file_becomes_jobs_on_the_clusters_clock(imports):
    answer = upload(imports, GOOD, origin="2026-01-05T01:00:00Z")
    assert answer.status_code == 202, answer.text
    run_id = answer.json()["run_id"]
    assert answer.headers["location"] == f"/v1/runs/{run_id}"
    assert answer.json()["sha256"] == hashlib.sha256(GOOD.encode()).hexdigest()
    with reading(imports.database.engine) as session:
        run = session.get(RunRow, run_id)
    assert (run.kind, run.status) == ("import", "queued")
    assert told(imports, answer.json()["import_id"])["status"] == "waiting"

    report = carry_out(imports, answer)
    assert report == {
        "num_jobs": 2, "num_skipped": 0, "num_faults": 0, "faults": [], "sha256": answer.json()["sha256"]
    }  # fmt: skip
    assert jobs(imports) == [
        (
            "a",
            "speech",
            3600.0,
            1,
            100.0,
            None,
            None,
            None,
            None,
            "failed",
            8600.0,
            None,
            None,
            None,
            None,
            None,
            None,
        ),
        (
            "b",
            "vision",
            3660.0,
            2,
            30.0,
            "ada",
            None,
            None,
            None,
            "completed",
            None,
            None,
            None,
            None,
            None,
            None,
            None,
        ),
    ]
    assert num_chunks(imports) == 0
    after = told(imports, answer.json()["import_id"])
    assert (after["status"], after["num_jobs"], after["shift_s"]) == ("imported", 2, 3600.0)
    listed = imports.client.get("/v1/clusters/c/history").json()
    assert listed == {"num_jobs": 2, "items": [after], "next": None}


def test_asked_again_an_import_tells_what_came_of_it_the_first_time(imports):
    answer = upload(imports, GOOD)
    assert carry_out(imports, answer) == carry_out(imports, answer)
    assert len(jobs(imports)) == 2


def test_jobs_that_are_known_are_left_out_and_reported(imports):
    carry_out(imports, upload(imports, GOOD))
    report = carry_out(imports, upload(imports, GOOD + "c,vision,70,1,5,,,\n"))
    assert (report["num_jobs"], report["num_skipped"], report["num_faults"]) == (1, 2, 2)
    assert {fault["rule"] for fault in report["faults"]} == {"already-known"}
    assert len(jobs(imports)) == 3


def test_a_bad_row_refuses_the_file_with_every_fault(imports):
    answer = upload(imports, GOOD + "c,vision,70,0,5,,,\nd,vision,x,1,5,,,\n")
    with pytest.raises(HistoryRefused, match="2 faults and was refused; the first: line 4: width-below-one"):
        carry_out(imports, answer)
    with pytest.raises(HistoryRefused):
        carry_out(imports, answer)
    after = told(imports, answer.json()["import_id"])
    assert (after["status"], after["num_jobs"], after["num_faults"]) == ("refused", 0, 2)
    assert [fault["line"] for fault in after["faults"]] == [4, 5]
    assert jobs(imports) == []
    assert num_chunks(imports) == 0


def test_lenient_reading_skips_and_lists_bad_rows(imports):
    report = carry_out(imports, upload(imports, GOOD + "c,vision,70,0,5,,,\n", lenient=True))
    assert (report["num_jobs"], report["num_skipped"], report["num_faults"]) == (2, 1, 1)
    assert report["faults"][0]["line"] == 4


def test_faults_are_counted_exactly_and_a_thousand_kept(imports):
    bad = "".join(f"x{k},vision,0,0,5,,,\n" for k in range(12_000))
    answer = upload(imports, GOOD + bad, lenient=True)
    report = carry_out(imports, answer)
    assert (report["num_jobs"], report["num_faults"], len(report["faults"])) == (2, 12_000, 1_000)
    listed = imports.client.get("/v1/clusters/c/history").json()["items"][0]
    assert (listed["num_faults"], len(listed["faults"])) == (12_000, 20)


def test_names_the_database_cannot_hold_are_faults(imports):
    row = f"{'x' * 256},vision,0,1,5,,,\n"
    with pytest.raises(HistoryRefused, match="more than 255 characters"):
        carry_out(imports, upload(imports, GOOD + row))
    report = carry_out(imports, upload(imports, GOOD + row, lenient=True))
    assert (report["num_jobs"], report["num_skipped"]) == (2, 1)


def test_jobs_that_have_not_ended_yet_are_pointed_out(imports):
    report = carry_out(imports, upload(imports, GOOD, origin=NOON.isoformat()))
    assert report["num_jobs"] == 2
    assert "2 of the imported jobs end after now" in report["faults"][0]["message"]


def test_pools_and_quotas_are_those_of_the_cluster_if_it_has_any(imports):
    imports.inventory({"vision": 1})
    with pytest.raises(HistoryRefused, match="2 faults"):
        carry_out(imports, upload(imports, GOOD))
    carry_out(imports, upload(imports, GOOD + "c,vision,70,1,5,,,\n", lenient=True))
    assert [job[0] for job in jobs(imports)] == ["c"]
    with reading(imports.database.engine) as session:
        reasons = [row.reason for row in live.epochs(session, "c")]
    assert reasons == ["inventory changed", "history imported"]


def test_a_large_file_is_kept_in_chunks_and_read_back_whole(imports):
    rows = "".join(f"job-{k:07},vision,{k},1,{k % 90},user-{k % 50},,completed\n" for k in range(40_000))
    answer = upload(imports, HEADER + rows)
    size = len(HEADER) + len(rows)
    assert answer.json()["num_bytes"] == size
    with reading(imports.database.engine) as session:
        pieces = list(history.chunks(session, answer.json()["import_id"]))
    assert [len(piece) for piece in pieces] == [CHUNK_BYTES] * (size // CHUNK_BYTES) + [size % CHUNK_BYTES]
    assert carry_out(imports, answer)["num_jobs"] == 40_000


def test_the_child_process_imports_and_refuses(imports):
    request = {"cluster": "c", "import_id": upload(imports, GOOD).json()["import_id"]}
    environment = {"ANTECAST_DATABASE_URL": imports.database.url}
    report = run_child("import_history", request, 120.0, environment=environment)
    assert report["num_jobs"] == 2
    assert len(jobs(imports)) == 2


def test_what_is_not_a_file_of_jobs_is_refused_at_once(imports):
    assert_problem(upload(imports, b""), 422, "invalid")
    assert_problem(upload(imports, GOOD, format="xlsx"), 422, "invalid")
    assert_problem(upload(imports, GOOD, origin="yesterday"), 422, "not-valid")
    assert_problem(upload(imports, GOOD, colour="red"), 422, "not-valid")
    as_json = imports.client.post("/v1/clusters/c/history", json={})
    assert_problem(as_json, 422, "invalid")
    elsewhere = imports.client.post("/v1/clusters/d/history", content=GOOD, headers=CSV)
    assert_problem(elsewhere, 404, "unknown-cluster")
    assert imports.client.get("/v1/clusters/c/history").json()["items"] == []


def test_an_upload_that_is_too_large_leaves_nothing_behind(open_service):
    service = open_service(max_upload_mib=1, max_body_kib=1)
    service.cluster()
    too_much = b"x" * (2**20 + 1)
    assert_problem(upload(service, too_much), 413, "too-large")
    assert_problem(
        upload(service, (too_much[at : at + 4096] for at in range(0, len(too_much), 4096))), 413, "too-large"
    )
    assert service.client.get("/v1/clusters/c/history").json()["items"] == []
    assert num_chunks(service) == 0
    assert upload(service, GOOD.ljust(2**20)).status_code == 202


def test_uploads_that_are_not_read_yet_are_limited(imports):
    for _ in range(MAX_UNFINISHED):
        assert upload(imports, GOOD).status_code == 202
    refused = upload(imports, GOOD)
    assert_problem(refused, 429, "too-many-requests")
    assert int(refused.headers["retry-after"]) > 0


def test_imports_are_listed_a_page_at_a_time_newest_first(imports):
    made = []
    for _ in range(3):
        made.append(upload(imports, GOOD).json()["import_id"])
        imports.clock.wait(1)
    first = imports.client.get("/v1/clusters/c/history", params={"limit": 2}).json()
    assert [one["import_id"] for one in first["items"]] == [made[2], made[1]]
    last = imports.client.get("/v1/clusters/c/history", params={"limit": 2, "before": first["next"]}).json()
    assert ([one["import_id"] for one in last["items"]], last["next"]) == ([made[0]], None)
    assert_problem(imports.client.get("/v1/clusters/c/history/none"), 404, "unknown-resource")
    assert_problem(imports.client.get("/v1/clusters/c/history?before=none"), 404, "unknown-resource")


def test_abandoned_uploads_are_cleared_away_by_the_next(imports):
    engine = imports.database.engine
    left = begin(engine, "c", file_format="csv", is_lenient=False, origin=None, clock=imports.clock)
    left.take(b"x" * CHUNK_BYTES)
    assert num_chunks(imports) == 1
    imports.clock.wait(3601)
    upload(imports, GOOD)
    assert num_chunks(imports) == 1
    assert left.import_id not in [
        one["import_id"] for one in imports.client.get("/v1/clusters/c/history").json()["items"]
    ]


BYTES = {"Content-Type": "application/octet-stream"}
SACCT = (
    "JobID|JobIDRaw|User|Partition|JobName|Submit|Start|End|ElapsedRaw|State|AllocTRES|Timelimit\n"
    "1|1|ada|vision|train|2026-01-05T02:00:00|2026-01-05T02:01:00|2026-01-05T03:01:00|3600|COMPLETED"
    "|cpu=4,gres/gpu=2|UNLIMITED\n"
    "1.batch|1.batch|||batch|2026-01-05T02:00:00|2026-01-05T02:01:00|2026-01-05T03:01:00|3600|COMPLETED|cpu=4|\n"
    "2|2|bob|vision|train|2026-01-05T02:00:00|2026-01-05T02:01:00|2026-01-05T02:02:00|60|PREEMPTED"
    "|cpu=4,gres/gpu=1|1:00:00\n"
    "3|3|bob|speech|train|2026-01-05T02:00:00|2026-01-05T02:01:00|Unknown|60|RUNNING|cpu=4,gres/gpu=1|1:00:00\n"
    "4|4|bob|cpu|make|2026-01-05T02:00:00|2026-01-05T02:01:00|2026-01-05T02:02:00|60|COMPLETED|cpu=4,gres/gpu=0|1\n"
)


def upload_export(service, content, **query):
    return service.client.post("/v1/clusters/c/history", content=content, params=query, headers=BYTES)


@pytest.mark.parametrize("packed", [False, True])
def test_an_export_of_any_format_becomes_jobs_on_the_clusters_clock(imports, packed):
    content = gzip.compress(SACCT.encode()) if packed else SACCT.encode()
    answer = upload_export(imports, content, format="auto", tz="Europe/Zurich")
    assert answer.status_code == 202, answer.text
    report = carry_out(imports, answer)
    found = {job[0]: job for job in jobs(imports)}
    assert set(found) == {"1", "2"}
    assert found["1"][:7] == ("1", "vision", 3600.0, 2, 3600.0, "ada", "train")
    assert [found[job_id][9] for job_id in ("1", "2")] == ["completed", "cut_off"]
    assert found["1"][-1] == 3660.0
    assert (report["num_jobs"], report["num_skipped"], report["num_faults"]) == (2, 3, 3)
    assert {fault["rule"] for fault in report["faults"]} == {"step-row", "left-out"}
    assert {fault["message"] for fault in report["faults"] if fault["rule"] == "left-out"} == {
        "1 jobs: without GPUs", "1 jobs: not ended yet"
    }  # fmt: skip


def test_an_export_without_its_zone_is_refused_with_the_reason(imports):
    with pytest.raises(HistoryRefused, match="no-time-zone"):
        carry_out(imports, upload_export(imports, SACCT, format="sacct"))
    assert jobs(imports) == []


def test_times_that_count_from_an_origin_begin_where_the_sender_says(imports):
    pods = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
        "scheduled_time\np1,1000,1024,1,1000,,LS,Succeeded,600,1200,660\n"
    )
    carry_out(imports, upload_export(imports, pods, format="auto", origin="2026-01-05T01:00:00Z"))
    (made,) = jobs(imports)
    assert made[:5] == ("p1", "no-pool", 4200.0, 1, 540.0)
    carry_out(imports, upload_export(imports, pods.replace("p1", "p2"), format="auto"))
    assert [job[2] for job in jobs(imports) if job[0] == "p2"] == [600.0]


def test_jobs_of_unknown_width_are_no_history_either(imports):
    content = "1 600 5 100 4 -1 -1 4 200 -1 1 3 1 7 1 1 -1 -1\n"
    with pytest.raises(HistoryRefused, match="no job is left: GPUs not known: 1"):
        carry_out(imports, upload_export(imports, content, format="swf"))


def test_an_inventory_is_no_history(imports):
    content = "NodeName=n1 Gres=gpu:a100:8 CPUTot=64 RealMemory=500000 State=IDLE Partitions=gpu\n"
    with pytest.raises(HistoryRefused, match="holds an inventory, no jobs"):
        carry_out(imports, upload_export(imports, content, format="auto"))


def test_pools_of_an_export_are_those_of_the_cluster(imports):
    imports.inventory({"speech": 4})
    with pytest.raises(HistoryRefused, match="unknown-pool"):
        carry_out(imports, upload_export(imports, SACCT, format="sacct", tz="UTC"))
    with pytest.raises(HistoryRefused, match="no good row is left"):
        carry_out(imports, upload_export(imports, SACCT, format="sacct", tz="UTC", lenient=True))


def test_what_is_said_of_an_export_has_to_make_sense(imports):
    assert_problem(upload_export(imports, SACCT, format="sacct", tz="Mars/Olympus"), 422, "invalid")
    assert_problem(upload_export(imports, SACCT, format="scontrol-node"), 422, "invalid")
    assert_problem(upload_export(imports, GOOD, format="csv"), 422, "invalid")
    assert_problem(upload(imports, GOOD, tz="UTC"), 422, "invalid")


def test_the_formats_of_uploads_are_those_that_hold_histories():
    histories = {one.name for one in REGISTRY.values() if one.kind is Kind.HISTORY}
    assert set(FORMATS) == {"auto", "csv"} | histories
