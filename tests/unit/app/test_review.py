"""What may be given out of a plan where somebody reviews lending."""

from support import job

from app.children.review import reviewed
from domain.plans import Hold, Plan, Start

OWN, WIDE, AFTER = job("own", 0.0, 1, "a"), job("wide", 1.0, 4, "a"), job("after", 2.0, 1, "a")
GUEST, OTHER = job("guest", 3.0, 1, "b"), job("other", 4.0, 1, "b")
GOES = job("goes", 0.0, 4, "b")
NOBODY = {"starts": [], "send_backs": [], "holds": []}


def test_own_starts_need_nobodys_word_and_lending_does():
    plan = Plan(starts=(Start(OWN, False), Start(GUEST, True), Start(OTHER, True)), holds=(Hold("a", 2),))
    left, proposed = reviewed(plan, 3, {**NOBODY, "starts": ["other"]})
    assert left == Plan(starts=(Start(OWN, False), Start(OTHER, True)))
    assert [(one["kind"], one["job_id"], one["is_given_out"]) for one in proposed] == [
        ("start", "guest", False),
        ("start", "other", True),
        ("hold", None, False),
    ]
    left, _ = reviewed(plan, 3, {**NOBODY, "holds": [["a", 2]]})
    assert left.holds == (Hold("a", 2),)


def test_who_needs_the_gpus_of_a_guest_waits_until_that_may_go_and_nobody_overtakes():
    plan = Plan(
        send_backs=(GOES,),
        starts=(Start(OWN, False), Start(WIDE, False), Start(AFTER, False), Start(GUEST, True)),
    )
    left, _ = reviewed(plan, 3, {**NOBODY, "starts": ["guest"]})
    assert left == Plan(starts=(Start(OWN, False),))
    left, proposed = reviewed(plan, 3, {**NOBODY, "send_backs": ["goes"]})
    assert left.send_backs == (GOES,)
    assert [start.job.job_id for start in left.starts] == ["own", "wide", "after"]
    assert proposed[0] == {
        "kind": "send_back",
        "job_id": "goes",
        "pool": "b",
        "num_gpus": 4,
        "is_given_out": True,
    }


def test_what_was_accepted_and_is_wanted_no_more_is_not_given_out():
    accepted = {"starts": ["guest"], "send_backs": ["goes"], "holds": [["a", 2]]}
    assert reviewed(Plan(), 8, accepted) == (Plan(), [])
