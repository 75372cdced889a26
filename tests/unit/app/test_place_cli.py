"""The command place: what it prints and writes, what it leaves as it is, and how it refuses."""

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app import cli
from app.services import place_gangs

NODES = "node,num_gpus,gpu_type\nn0,8,a100\nn1,8,a100\nn2,8,a100\n"
WAITING = "job_id,pool,num_gpus\nw,vision,3\n"
RUNNING = """job_id,pool,gpus,movable,move_cost
r0,speech,n0/0-4,0,
r1,speech,n0/5-6,1,1.5
r2,speech,n1/0-5,0,
r3,speech,n2/0-6,0,
"""
"""7, 6 and 7 of three nodes of 8 are in use: a gang of 3 fits only if r1 moves."""

SWAP_NODES = "node,num_gpus\nn0,4\nn1,4\n"
SWAP = "job_id,gpus,movable\nwide,n0/0-2,1\nnarrow,n1/0-1,1\nrest,n1/2,0\n"


@pytest.fixture
def place(tmp_path, monkeypatch, capsys):
    """The command on files with these texts; other arguments as they are."""

    def go(*options: object, **files: str) -> tuple[int, str, str]:
        words = [str(option) for option in options]
        for name, text in ({"nodes": NODES, "jobs": WAITING} | files).items():
            path = tmp_path / f"{name}.csv"
            path.write_text(text)
            words += [f"--{name}", str(path)]
        monkeypatch.setattr(sys, "argv", ["antecast", "place", *words])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return go


def told(place, *options, **files) -> dict:
    code, out, err = place("--json", "-", *options, **files)
    assert code == 0, err
    return json.loads(out)


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def decided(document: dict) -> list:
    return [document[key] for key in ("starts", "steps", "held", "left_out")]


def test_nothing_moves_unless_asked_and_the_reason_says_what_a_move_would_do(place):
    code, out, _ = place(running=RUNNING)
    assert code == 0
    said = " ".join(out.split())
    assert "fits no node although 4 GPUs are idle: the widest that fits has 2" in said
    assert "0 of 1 gangs placed" in said
    assert "more moves would help w: try --max-moves 1" in said
    assert "gap 0 %" in said


def test_one_move_places_it_and_everything_is_written(place, tmp_path):
    out = tmp_path / "out"
    code, said, _ = place("--max-moves", 1, "--out", out, "--picture", "svg", running=RUNNING)
    assert code == 0
    assert "1 of 1 gangs placed (3 GPUs) on 3 nodes, 1 running gangs moved in 1 steps" in said
    assert table(out / "moves.csv") == [
        {
            "step": "1",
            "job_id": "r1",
            "pool": "speech",
            "num_gpus": "2",
            "from_gpus": "n0/5;n0/6",
            "gpus": "n1/6;n1/7",
        }
    ]
    (row,) = table(out / "waiting.csv")
    assert (row["job_id"], row["gpus"], row["why"]) == ("w", "n0/5;n0/6;n0/7", "")
    document = json.loads((out / "placing.json").read_text())
    gain = document["gain"]
    assert (gain["placed"], gain["moves"], gain["move_cost_gpus"]) == (1, 1, 1.5)
    assert gain["waste_after_gpus"] < gain["waste_before_gpus"]
    assert document["solve"]["status"] == "optimal"
    assert (out / "nodes.svg").read_text().lstrip().startswith("<?xml")


def test_two_gangs_exchange_places_in_one_step(place):
    files = {"nodes": SWAP_NODES, "jobs": "job_id,num_gpus\no,2\n", "running": SWAP}
    assert told(place, "--max-moves", 1, **files)["starts"] == []
    document = told(place, "--max-moves", 2, **files)
    (step,) = document["steps"]
    assert {move["job_id"]: move["gpus"][0][:2] for move in step} == {"wide": "n1", "narrow": "n0"}


def test_a_second_call_with_the_first_ones_answer_changes_nothing(place, tmp_path):
    files = {
        "running": RUNNING,
        "holds": "pool,num_gpus\nspeech,1\n",
        "jobs": WAITING + "x,vision,1\ny,vision,5\n",
    }
    first = told(place, "--max-moves", 1, **files)
    place("--max-moves", 1, "--out", tmp_path / "out", **files)
    for previous in (tmp_path / "out", tmp_path / "out" / "placing.json"):
        again = told(place, "--max-moves", 1, "--previous", previous, **files)
        assert decided(again) == decided(first)
        assert again["gain"]["changed"] == 0


def test_waiting_csv_of_an_earlier_call_is_a_file_of_gangs_again(place, tmp_path):
    jobs = "job_id,num_gpus\na,2\nb,4\nc,99\n"
    first = told(place, "--out", tmp_path / "out", "--json", "-", jobs=jobs)
    written = (tmp_path / "out" / "waiting.csv").read_text()
    assert decided(told(place, jobs=written)) == decided(first)


def test_once_a_plan_has_come_true_the_rest_of_it_stands(place, tmp_path):
    """r1 has moved and w runs: nothing is left of the earlier plan, and z takes what is idle."""
    place("--max-moves", 1, "--out", tmp_path / "out", running=RUNNING)
    later = RUNNING.replace("n0/5-6", "n1/6-7") + "w,vision,n0/5-7,0,\n"
    document = told(
        place, "--max-moves", 1, "--previous", tmp_path / "out", jobs="job_id,num_gpus\nz,1\n", running=later
    )
    assert document["steps"] == []
    assert document["starts"][0]["gpus"] == ["n2/7"]


def test_holds_stay_placeable(place):
    """8 GPUs for gangs of up to 8 are a whole node, whatever else would like to start."""
    holds = "pool,num_gpus,widest_gpus\nspeech,8,8\nspeech,4,2\n"
    jobs = "job_id,num_gpus,guest\na,4,1\nb,4,1\nc,4,1\nd,4,1\n"
    document = told(place, jobs=jobs, holds=holds)
    whole, pieces = (held["pieces"] for held in document["held"])
    assert [len({name.split("/")[0] for name in piece}) for piece in whole] == [1]
    assert len(whole[0]) == 8
    assert [len(piece) for piece in pieces] == [2, 2]
    assert document["gain"]["placed"] == 3
    assert [one["why"] for one in document["left_out"]] == ["held-for-pool"]


def test_movable_gangs_that_cannot_be_thought_of_are_named(place):
    running = "job_id,gpus,movable\nwide,n0/0-7;n1/0,1\nr,n2/0,1\n"
    document = told(place, "--max-moves", 1, running=running)
    assert document["not_considered"] == ["wide"]


def test_gpus_that_are_in_use_by_now_are_not_kept(place):
    code, _, err = place(
        jobs="job_id,num_gpus,gpus\na,1,n0/0\nb,2,n1/0;n2/0\n", running="job_id,gpus\nr,n0/0\n"
    )
    assert code == 0
    assert "2 gangs cannot keep the GPUs they were given, in use or on too many nodes: a, b" in err


def test_groups_of_nodes_say_that_nothing_is_proven(place):
    document = told(place, "--max-nodes", 1)
    assert (document["solve"]["fallback"], document["solve"]["groups"]) == ("groups", 3)
    assert document["gain"]["placed"] == 1


def test_no_time_at_all_still_gives_the_rules_answer(place):
    document = told(place, "--wall-limit", 0)
    assert (document["solve"]["status"], document["gain"]["placed"]) == ("greedy", 1)


def test_no_two_orders_of_rows_give_different_answers(place):
    files = {"nodes": NODES, "jobs": WAITING + "x,vision,1\ny,vision,1\n", "running": RUNNING}

    def turned(text: str) -> str:
        head, *rows = text.strip().split("\n")
        return "\n".join((head, *reversed(rows))) + "\n"

    one = told(place, "--max-moves", 1, **files)
    other = told(place, "--max-moves", 1, **{name: turned(text) for name, text in files.items()})
    assert one == other


BAD = [
    ({"jobs": "job_id,num_gpus\na,0\n"}, "jobs.csv:2: width-below-one"),
    ({"jobs": "job_id\na\n"}, "jobs.csv:1: missing-column"),
    ({"jobs": "job_id,num_gpus,gpus\na,1,n9/0\n"}, "jobs.csv:2: unknown-gpu"),
    (
        {"jobs": "job_id,num_gpus\nr0,1\n", "running": RUNNING},
        "jobs.csv: duplicate-id: job r0 waits and runs",
    ),
    ({"running": "job_id,gpus\na,n0/0\nb,n0/0\n"}, "running.csv:3: gpu-named-twice"),
    ({"running": "job_id,gpus,movable\na,n0/0,yes\n"}, "running.csv:2: not-a-number"),
    ({"holds": "pool,num_gpus\np,none\n"}, "holds.csv:2: not-a-number"),
    ({"nodes": "node,num_gpus\nn0,0\n"}, "nodes.csv:2: out-of-range"),
    ({"nodes": ""}, "nodes.csv: empty-file"),
]


@pytest.mark.parametrize(("files", "said"), BAD, ids=[said for _, said in BAD])
def test_bad_input_names_file_line_and_rule(place, files, said):
    code, _, err = place(**files)
    assert code == 2
    assert said in err
    assert "Traceback" not in err


def test_lenient_skips_bad_gangs_and_lists_them_but_never_gangs_that_run(place):
    jobs = "job_id,num_gpus\na,1\nb,0\nr0,1\n"
    code, out, err = place("--lenient", jobs=jobs, running=RUNNING)
    assert code == 0
    assert "skipped" in err
    assert "jobs.csv:3: width-below-one" in err
    assert "job r0 waits and runs at once" in err
    assert "1 of 1 gangs placed" in out
    assert place("--lenient", running="job_id,gpus\na,n0/0\nb,n0/0\n")[0] == 2


@pytest.mark.parametrize(
    ("text", "rule"),
    [("", "not-a-plan"), ("{}", "not-a-plan"), ('{"starts": 3}', "not-a-plan"), (None, "unreadable-file")],
)
def test_an_earlier_plan_that_is_none_is_refused(place, tmp_path, text, rule):
    path = tmp_path / "old.json"
    if text is not None:
        path.write_text(text)
    code, _, err = place("--previous", path)
    assert (code, f"old.json: {rule}" in err) == (2, True)


def test_gpus_of_an_earlier_plan_that_are_gone_are_named(place, tmp_path):
    place("--json", tmp_path / "old.json")
    (start,) = json.loads((tmp_path / "old.json").read_text())["starts"]
    fewer = NODES.replace(f"{start['gpus'][0][:2]},8,a100\n", "")
    code, _, err = place("--previous", tmp_path / "old.json", nodes=fewer)
    assert code == 0
    assert "the earlier plan names GPUs that are gone: gang w" in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--max-moves", "-1"), "--max-moves"),
        (("--limit", "nan"), "--limit"),
        (("--move-cost", "inf"), "finite"),
        (("--picture", "gif"), "neither png nor svg"),
        (("--json", "/dev/null/x/y.json"), "cannot be written"),
    ],
)
def test_options_that_make_no_sense_are_refused(place, options, said):
    code, _, err = place(*options)
    assert code == 2
    assert said in " ".join(err.split())


def test_a_placing_that_breaks_a_rule_is_not_shown(place, monkeypatch):
    sound = place_gangs.solve_placing

    def broken(*arguments):
        done = sound(*arguments)
        return replace(done, placements=done.placements * 2)

    monkeypatch.setattr(place_gangs, "solve_placing", broken)
    code, out, err = place()
    assert (code, out) == (3, "")
    assert "gang w starts 2 times" in err


def test_names_that_a_terminal_would_obey_are_printed_harmlessly(place):
    code, out, _ = place(jobs="job_id,num_gpus\n\x1b[31mred,1\n[bold]b,99\n")
    assert code == 0
    assert "\x1b" not in out
    assert "[bold]b" in out


def test_help_has_an_example(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["antecast", "place", "--help"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    assert "antecast place --nodes nodes.csv" in " ".join(capsys.readouterr().out.split())
