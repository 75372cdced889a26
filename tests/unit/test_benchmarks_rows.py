"""Scripts that replay many rows: which rows, when one is run again, and what their tables say."""

import argparse
import ast
from dataclasses import replace
from pathlib import Path

import pytest

from app.pictures import FrontierSeries, draw_frontier
from benchmarks import ablation, code_version, frontier, planner_table, runs
from benchmarks import rows as rows_of_csv
from benchmarks.oracle_sizes import contradictions
from benchmarks.runs import COLUMNS, Protocol, Row
from data.synthetic import philly_like, write_csv
from simulator.forecasting import choose, split_settings
from solver.policies import POLICIES
from solver.policies.base import parse_settings

DAY_S = 86_400.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("rows")
    write_csv(philly_like(3, days=1.0, load=1.3, num_pools=3), made)
    (made / "pools.csv").rename(made / "pools_load130.csv")
    return made


@pytest.fixture
def protocol(folder) -> Protocol:
    return Protocol(folder / "jobs.csv", 0.2 * DAY_S, 0.4 * DAY_S)


def figures(row: Row, protocol: Protocol, **other: str) -> rows_of_csv.Figures:
    names = {"load": row.load, "series": row.series, "label": row.label, "asked": row.asked}
    known = dict.fromkeys(COLUMNS, "0") | names | {"inputs": runs.inputs_hash(row, protocol), "referee": ""}
    return known | other


def test_a_row_is_run_once_and_again_when_what_it_rests_on_changes(folder, protocol, tmp_path, capsys):
    pools = folder / "pools_load130.csv"
    rows = [
        Row(pools, "maxmin", "", "maxmin"),
        Row(pools, "sia", "confidence=0.5", "sia", {"confidence": "0.5"}),
    ]
    ran = []

    def execute(missing, given, _workers):
        for row in missing:
            ran.append(row.series)
            yield row, figures(row, given, ratio=str(len(ran)))

    path = tmp_path / "out" / "rows.csv"
    assert [one["ratio"] for one in runs.complete(rows, protocol, path, 1, execute)] == ["1", "2"]
    assert [one["ratio"] for one in runs.complete(rows, protocol, path, 1, execute)] == ["1", "2"]
    assert ran == ["maxmin", "sia"]
    changed = [rows[0], replace(rows[1], settings={"confidence": "0.6"})]
    assert [one["ratio"] for one in runs.complete(changed, protocol, path, 1, execute)] == ["1", "3"]
    runs.complete(rows, replace(protocol, seed=1), path, 1, execute)
    assert ran == ["maxmin", "sia", "sia", "maxmin", "sia"]
    assert len(runs.read_figures(path)) == 2, "a row that rests on something else takes the old one's place"
    assert "2 of 2 rows are in" in capsys.readouterr().err


def test_a_row_that_fails_is_told_and_the_others_are_kept(folder, protocol, tmp_path, capsys):
    pools = folder / "pools_load130.csv"
    rows = [Row(pools, "fcfs", "", "fcfs"), Row(pools, "maxmin", "", "maxmin")]

    def execute(missing, given, _workers):
        yield missing[0], RuntimeError("out of memory")
        yield missing[1], figures(missing[1], given)

    done = runs.complete(rows, protocol, tmp_path / "rows.csv", 1, execute)
    assert [one["series"] for one in done] == ["maxmin"]
    assert "RuntimeError: out of memory" in capsys.readouterr().err
    assert runs.exit_code(rows, done) == 1
    assert runs.exit_code(rows[1:], done) == 0
    assert runs.exit_code(rows[1:], [done[0] | {"referee": "a rule"}]) == 1


def test_a_row_without_a_verdict_is_run_again_for_a_referee(folder, protocol, tmp_path):
    row = Row(folder / "pools_load130.csv", "fcfs", "", "fcfs")
    path = tmp_path / "rows.csv"
    for verdict in ("", "valid"):
        said = [(row, figures(row, protocol, referee=verdict))]
        runs.complete([row], replace(protocol, referee=Path("r")), path, 1, lambda *_, s=said: s)
    assert runs.complete([row], replace(protocol, referee=Path("r")), path, 1, lambda rows, *_: iter(rows))


def test_figures_are_those_of_the_report_and_the_schedule_is_judged(folder, protocol, tmp_path):
    judge = tmp_path / "judge.py"
    judge.write_text("import sys\nassert '--no-preemption' in sys.argv\nprint('{\"faults\": []}')\n")
    given = replace(protocol, out=tmp_path / "out", referee=judge)
    row = Row(folder / "pools_load130.csv", "all may", "R=1", "reclaim", {"requeueable": "1"})
    assert row.requeueable == 1.0
    found = runs.run_row(row, given)
    assert set(found) == set(COLUMNS)
    assert found["referee"] == "valid"
    assert found["slowed"] == found["faults"] == "0"
    assert float(found["ratio"]) > 1.0
    assert int(found["requeues"]) > 0
    assert float(found["lost_gpu_hours"]) > 0.0
    assert (tmp_path / "out" / "load130" / "all-may" / "R=1" / "report.json").is_file()
    judge.write_text('print(\'{"faults": ["late", "early"]}\')\n')
    assert runs.judge(row, given, tmp_path / "schedule.csv") == "late"
    judge.write_text('print(\'{"error": "no such column"}\')\n')
    assert runs.judge(row, given, tmp_path / "schedule.csv") == "no such column"
    judge.write_text("import sys\nsys.exit('nothing to read')\n")
    assert runs.judge(row, given, tmp_path / "schedule.csv") == "unreadable: nothing to read"


def test_settings_code_and_files_make_the_hash_and_names_do_not(folder, protocol, tmp_path):
    row = Row(folder / "pools_load130.csv", "a", "b", "sia", {"confidence": "0.5"})
    known = runs.inputs_hash(row, protocol)
    assert runs.inputs_hash(replace(row, series="c", label="d"), protocol) == known
    other = tmp_path / "pools_load130.csv"
    other.write_text(row.pools.read_text() + "more,4\n")
    changed = [
        runs.inputs_hash(replace(row, settings={}), protocol),
        runs.inputs_hash(replace(row, policy="maxmin"), protocol),
        runs.inputs_hash(replace(row, pools=other), protocol),
        runs.inputs_hash(row, replace(protocol, eval_from_s=1.0)),
        runs.inputs_hash(row, replace(protocol, seed=1)),
    ]
    assert len({known, *changed}) == 6


def test_a_policy_that_is_not_there_is_refused_with_those_there_are():
    assert runs.asked_policy("sia:confidence=0.5") == "sia:confidence=0.5"
    for text, said in (
        ("magic", "no policy 'magic'; there are: fcfs"),
        ("sia:x", "not of the form key=value"),
    ):
        with pytest.raises(argparse.ArgumentTypeError, match=said):
            runs.asked_policy(text)


def test_the_code_of_other_policies_does_not_count():
    behind = code_version.modules_behind("solver.policies.sia")
    assert {"solver.policies.sia", "solver.policies.pending", "simulator.engine", "models.training"} <= behind
    assert "antecast_executor.calibration.search" in behind
    assert not behind & {"solver.policies.anticipatory", "solver.lookahead", "simulator.episodes"}
    assert code_version.code_version("sia") == code_version.code_version("sia-perfect")
    assert code_version.code_version("sia") != code_version.code_version("maxmin")


def test_docstrings_and_comments_do_not_count():
    text = '"""One."""\nX = 1\n"""Two."""\n\ndef f():\n    """Three."""\n    return "four"  # five\n'
    bare = code_version._Undocumented().visit(ast.parse(text))
    assert ast.unparse(bare).split() == ["X", "=", "1", "def", "f():", "return", "'four'"]


def test_the_frontier_has_all_points_and_its_picture(folder, protocol, tmp_path):
    pools = [folder / "pools_load130.csv"]
    rows = frontier.points(pools, "anticipatory:kinship=0.5", (0.001, 0.01), (0.0, 0.3))
    assert len(rows) == 4
    assert rows[2].asked == "anticipatory:eps=0.001:kinship=0.5:requeueable=0.3"
    assert rows[2].series == "anticipatory:kinship=0.5 R=0.3"
    beside = frontier.points_beside(pools, ["maxmin", "sia"], (0.5, 0.99))
    assert [row.asked for row in beside] == [
        "sia:arrivals=corrected:confidence=0.5:lives=hazard",
        "sia:arrivals=corrected:confidence=0.99:lives=hazard",
        "maxmin",
    ]
    assert [row.policy for row in frontier.points_beside(pools, ["maxmin"], (0.5,))] == ["maxmin"]
    rows += beside
    done = [figures(row, protocol, slowed_pct="0.05", ratio=str(k), geo="2") for k, row in enumerate(rows)]
    said = frontier.promise_table(done)
    assert [line.split(" | ")[1:4] for line in said.splitlines()[2:]] == [
        ["0.1", "0.050", "yes"],
        ["1", "0.050", "yes"],
    ]
    series = frontier.series_of(done, "load130")
    assert [one.label for one in series][-2:] == ["sia", "maxmin"]
    assert len(series[2].points) == 2
    draw_frontier([*series, FrontierSeries("_$x", ((0.0, 1.0, 1.0),))], tmp_path / "f.svg", "a $ title")
    assert (tmp_path / "f.svg").read_text().lstrip().startswith("<?xml")
    drawn = []
    for name in ("one", "two"):
        frontier.draw(done, "planned", tmp_path / name)
        drawn.append((tmp_path / name / "frontier_load130.svg").read_bytes())
    assert drawn[0] == drawn[1], "the same rows, the same bytes"


def test_sia_is_given_the_forecasts_of_the_planner():
    planned = POLICIES["planned"]
    assert {"lives": planned.lives, "arrivals": planned.arrivals} == frontier.SAME_FORECASTS


def test_variants_are_run_at_every_load_and_share(folder):
    pools = [folder / "pools_load130.csv"]
    also = ablation.parse_variant("true lives*=sia:lives=true")
    assert (also.policy, also.settings, also.may_see_truth) == ("sia", {"lives": "true"}, True)
    rows = ablation.rows_of(pools, "planned:eps=0.01:plan_s=60", (0.0, 1.0), [*ablation.VARIANTS, also])
    sends_back = [one for one in ablation.VARIANTS if one.policy != "ablated"]
    assert len(rows) == len(ablation.VARIANTS) + 1 + len(sends_back)
    assert rows[0].asked == "planned:eps=0.01:plan_s=60:requeueable=0"
    by_label = {row.label: row for row in rows if row.series.endswith("R=0")}
    assert by_label["no lane"].asked == "ablated:eps=0.01:plan_s=60:without=lane"
    assert by_label["greedy instead of plans"].asked == "anticipatory:eps=0.01:requeueable=0"
    assert by_label["true lives*"].asked == "sia:lives=true"
    labels = [variant.label for variant in ablation.VARIANTS]
    assert len(set(labels)) == len(labels)


def test_every_variant_can_be_run_and_is_a_rule_of_its_own(folder):
    rows = ablation.rows_of([folder / "pools_load130.csv"], "planned", (0.0,), ablation.VARIANTS)
    known = set()
    for row in rows:
        common, own = split_settings(row.settings)
        spec = POLICIES[row.policy]
        choice = choose(row.policy, spec, common, may_see_truth=row.may_see_truth)
        known.add((row.policy, choice, parse_settings(row.policy, spec.settings, own)))
    assert len(known) == len(ablation.VARIANTS)


def test_a_variant_is_compared_with_the_planner_as_built(folder, protocol):
    rows = ablation.rows_of([folder / "pools_load130.csv"], "planned", (0.0, 1.0), ablation.VARIANTS[:2])
    numbers = [("10", "8", "0.1"), ("5", "10", "0.35"), ("20", "9", "0")]
    done = [
        figures(row, protocol, ratio=ratio, geo=geo, slowed_pct=slowed)
        for row, (ratio, geo, slowed) in zip(rows, numbers, strict=True)
    ]
    said = ablation.columns_of(done)["against as built"]
    assert [said(row) for row in done] == ["", "-50.0 % / +25.0 % / +0.250", ""]
    assert ablation.columns_of(done[1:])["against as built"](done[1]) == ""


def test_without_running_only_rows_that_still_hold_are_shown(folder, protocol, tmp_path, capsys):
    pools = folder / "pools_load130.csv"
    rows = [Row(pools, "fcfs", "", "fcfs"), Row(pools, "maxmin", "", "maxmin")]
    path = tmp_path / "rows.csv"
    runs.complete(rows[:1], protocol, path, 1, lambda *_: [(rows[0], figures(rows[0], protocol))])
    parser = argparse.ArgumentParser()
    runs.add_options(parser)
    asked = ["--jobs", str(protocol.jobs), "--pools", str(pools), "--csv", str(path), "--no-run"]
    asked += ["--train-until", str(protocol.train_until_s), "--eval-from", str(protocol.eval_from_s)]
    done = runs.figures_of_rows(rows, parser.parse_args(asked))
    assert [one["series"] for one in done] == ["fcfs"]
    assert "1 of 2 rows are in" in capsys.readouterr().err


def test_the_planners_table_names_the_aims_that_are_missed(folder, protocol):
    pools = [replace_name(folder, load) for load in ("load070", "load080")]
    rows = planner_table.rows_of(pools, ["anticipatory", "sia"], (0.0, 1.0))
    assert [(row.load, row.series, row.label) for row in rows[:4]] == [
        ("load070", "anticipatory", "R=0"),
        ("load070", "anticipatory", "R=1"),
        ("load070", "sia", "R=0"),
        ("load070", "reclaim:order=shortest", "R=1"),
    ]
    fast = {"ratio": "13", "geo": "14"}
    done = [figures(row, protocol, **fast) for row in rows]
    done[4] |= {"slowed_pct": "0.2", "worst_pool_pct": "1.5", "ratio": "3"}
    done[5] |= {"requeues": "600", "lost_gpu_hours_pct": "0.3"}
    done[7] |= {"requeues": "1000", "lost_gpu_hours_pct": "0.8"}
    said = planner_table.verdict_of(done)
    assert [said(row) for row in done] == [
        "all",
        "",
        "all",
        "",
        "missed: ratio, slowed, a pool",
        "missed: requeues",
        "all",
        "",
    ]
    table = rows_of_csv.markdown(done, planner_table.columns_of(done)).splitlines()
    assert "3.00 (11.5)" in table[6]
    assert "not asked" in table[6]


def replace_name(folder: Path, load: str) -> Path:
    path = folder / f"pools_{load}.csv"
    path.write_text((folder / "pools_load130.csv").read_text())
    return path


def test_oracles_contradict_each_other_where_one_has_found_what_the_other_rules_out():
    def row(seed: int, solver: str, waiting: str, bound: str) -> dict[str, str]:
        return {"jobs": "60", "seed": str(seed), "solver": solver, "waiting_min": waiting, "bound_min": bound}

    open_but_consistent = [row(0, "intervals", "1208", "1170"), row(0, "time-indexed", "1182", "1182")]
    assert contradictions(open_but_consistent) == []
    (said,) = contradictions(
        [*open_but_consistent, row(1, "intervals", "9", "9"), row(1, "time-indexed", "8", "8")]
    )
    assert said.startswith("60 jobs, seed 1")
