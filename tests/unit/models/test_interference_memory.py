"""Which pairs fit into the memory of one GPU."""

import pytest

from data.pairs import PairTable
from models.interference.memory import MemoryRule
from models.interference.profiles import Profile


def a(batch: int) -> str:
    return f"a (batch size {batch})"


def b(batch: int) -> str:
    return f"b (batch size {batch})"


TABLE = PairTable.of(
    dict.fromkeys([(a(16), b(16)), (a(16), b(64)), (a(64), b(16)), ("c", a(16)), ("c", b(16))], (0.5, 0.5)),
    frozenset({(a(64), b(64)), ("c", a(64)), ("c", b(64))}),
)
RULE = MemoryRule(TABLE, {}, None)


def test_the_table_is_believed_first():
    profiles = {a(16): Profile(memory_gb=99.0), b(16): Profile(memory_gb=99.0), a(64): Profile(memory_gb=1.0)}
    rule = MemoryRule(TABLE, profiles | {b(64): Profile(memory_gb=1.0)}, 16.0)
    assert rule.chance(a(16), b(16)) == 1.0
    assert rule.chance(a(64), b(64)) == 0.0


@pytest.mark.parametrize(
    ("pair", "chance"),
    [
        ((a(8), b(64)), 1.0),
        ((a(16), b(32)), 1.0),
        ((a(64), b(128)), 0.0),
        ((b(100), a(200)), 0.0),
        (("c", b(8)), 1.0),
        ((a(128), "c"), 0.0),
    ],
)
def test_memory_grows_with_the_batch(pair, chance):
    assert RULE.chance(*pair) == RULE.chance(*pair[::-1]) == chance


def test_profiles_say_what_fits_in_nine_tenths_of_the_gpu():
    profiles = {"x": Profile(memory_gb=7.0), "y": Profile(memory_gb=7.4), "z": Profile(memory_gb=7.5)}
    rule = MemoryRule(TABLE, profiles, 16.0)
    assert rule.chance("x", "y") == 1.0
    assert rule.chance("x", "z") == 0.0
    assert 0.0 < MemoryRule(TABLE, profiles, None).chance("x", "z") < 1.0


def test_otherwise_the_share_of_what_fits_is_the_chance():
    of_all = 5 / (5 + 3 + 2)
    assert RULE.chance("new", "other") == of_all
    assert RULE.chance("new", "c") == 2 / (4 + 2)
    assert RULE.chance("new", a(32)) == min(of_all, 3 / (3 + 1 + 2))


def test_beyond_the_largest_batch_of_a_family_the_chance_falls():
    chances = [RULE.chance("new", a(batch)) for batch in (64, 128, 256, 512)]
    assert chances == sorted(chances, reverse=True)
    assert chances[2] == pytest.approx(0.8 * chances[1])
    assert chances[0] == pytest.approx(chances[1] / 0.8)


def test_a_name_without_a_batch_is_not_smaller_than_all_batches():
    assert 0.0 < RULE.chance("a", b(64)) < 1.0
