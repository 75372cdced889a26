"""The commands about modes and plans against a real service with a real worker."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from databases import Database
from live import serving, working


@pytest.fixture
def database(sqlite_template: Path, tmp_path: Path) -> Database:
    path = tmp_path / "antecast.db"
    path.write_bytes(sqlite_template.read_bytes())
    return Database(f"sqlite:///{path}")


@pytest.fixture
def ask(antecast: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command; it has to end with this code."""
    monkeypatch.delenv("ANTECAST_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*words: Any, code: int = 0) -> Any:
        done = antecast(*words)
        assert done.code == code, (words, done.out, done.err)
        return done

    return run


def test_from_a_look_to_reviewed_plans_and_back(
    database: Database, tmp_path: Path, ask: Any, monkeypatch: pytest.MonkeyPatch
):
    """A cluster begins as one that is looked on; then its plans are approved; then lending stops."""
    inventory = tmp_path / "inventory.json"
    pools = [{"name": name, "quota_gpus": 2} for name in ("a", "b")]
    inventory.write_text(json.dumps({"pools": pools}))

    def told(*words: Any) -> Any:
        return json.loads(ask(*words, "--json").out)

    with serving(database.url) as client, working(database.url, tmp_path / "log"):
        monkeypatch.setenv("ANTECAST_URL", str(client.base_url))
        ask("cluster", "create", "c", "--policy", "reclaim", "--mode", "observe")
        ask("cluster", "inventory", "c", inventory)
        assert "mode observe, lends nothing" in ask("mode", "c").out
        day = told("observations", "--cluster", "c", "--day", "2026-01-06")["items"][0]
        assert (day["day"], day["report"]["jobs"]) == ("2026-01-06", 0)

        assert ask("mode", "c", "boldly", code=2).err
        assert told("mode", "c", "enforce", "--approval", "required")["approval"] == "required"
        job = {"pool": "a", "num_gpus": 1, "is_requeueable": True}
        events = [{"kind": "submitted", "job_id": f"j{k}", "job": job} for k in range(3)]
        assert client.post("/v1/clusters/c/events", json={"events": events}).json()["accepted"] == 3
        draft = told("plan", "--cluster", "c")
        assert [one["is_guest"] for one in draft["starts"]] == [False, False, True]
        name = draft["plan_id"]
        assert re.search(rf"1\s+{name}.*draft\s+3", ask("plans", "--cluster", "c").out)
        same = ask("plan", "diff", "latest", "--cluster", "c", "--to", name).out
        assert "0 added, 0 gone, 0 moved, 0 done, 3 same; churn 0 %" in same
        ask("plan", "approve", name, "--cluster", "c", "--version", 9, code=2)
        assert "approved, version 2, reviewed by local" in ask("plan", "approve", name, "--cluster", "c").out
        assert "lends nothing" in ask("stop-lending", "c").out
        assert "superseded" in ask("plan", "show", name, "--cluster", "c").out
        assert "nothing is proposed" in ask("actions", "--cluster", "c").out
