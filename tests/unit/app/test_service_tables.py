"""Plans and what-ifs as people see them."""

from rich.console import Console

from app.service_tables import _FIGURES, plan_table, what_if_tables

NOTHING = {
    "starts": [],
    "send_backs": [],
    "conversions": [],
    "holds": [],
    "riders": [],
    "shares": [],
    "dropped": [],
}
PLAN = {**NOTHING, "number": 7, "at": "2026-01-05T00:00:00Z", "status": "applied", "is_enforced": True}


def text_of(parts):
    console = Console(width=200)
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    return capture.get()


def test_every_part_of_a_plan_has_its_row():
    plan = {
        **PLAN,
        "starts": [
            {"job_id": "[red]j1", "is_guest": True, "gpus": [["node-1", 0], ["node-1", 1]]},
            {"job_id": "j8", "is_guest": False, "gpus": None},
        ],
        "send_backs": ["j2"],
        "conversions": ["j3"],
        "holds": [{"pool": "vision", "num_gpus": 4, "until": None}],
        "riders": [{"job_id": "j4", "host_job_id": "j5"}],
        "shares": [{"job_id": "j6", "primitive": "squeeze", "share_pct": 40.0}],
        "dropped": [{"job_id": "j7", "why": "ended meanwhile"}],
    }
    text = text_of(plan_table(plan))
    rows = (
        "send back   j2",
        "make own    j3",
        "start       [red]j1       as a guest on lent GPUs node-1:0, node-1:1",
        "start       j8            on its pool's own GPUs",
        "on the GPU of j5",
        "to 40 % of its GPU",
        "ended meanwhile",
        "4 GPUs",
    )
    for row in rows:
        assert row in text
    assert "plan 7" in text


def test_an_empty_plan_says_so():
    said = "plan 7 of 2026-01-05 00:00:00 UTC (carried out by the executors): nothing to do\n"
    assert text_of(plan_table(PLAN)) == said
    assert "advice only" in text_of(plan_table({**PLAN, "is_enforced": False}))


def test_a_what_if_with_pools_that_nobody_used():
    figures = dict.fromkeys((name for _, name, _, _ in _FIGURES), 3600.0)
    pool = {"quota_gpus": 2, "jobs": 0, "mean_jct_s": None, "mean_queue_delay_s": None}
    text = text_of(
        what_if_tables(
            {
                "window": {"from_s": 0.0, "to_s": 86_400.0, "jobs": 3},
                "baseline": figures,
                "changed": {**figures, "mean_jct_s": 7200.0},
                "difference": {**dict.fromkeys(figures, 0.0), "mean_jct_s": 3600.0, "requeues": None},
                "pools": [{"pool": "vision", "baseline": pool, "changed": pool}],
                "excluded": {"jobs": 1, "by_pool": [{"pool": "vision", "jobs": 1}]},
            }
        )
    )
    assert "+1.00" in text
    assert "1 jobs (1 of vision)" in text
