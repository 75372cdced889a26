"""Where MIG slices may lie, against NVIDIA's lists."""

import pytest

from domain.errors import SettingError
from solver.sharing import mig
from solver.sharing.nodes import NodeSpec, empty_states
from solver.sharing.requests import Request, demand_of

A100 = mig.geometry_code("A100-40GB")
A30 = mig.geometry_code("A30-24GB")


def starts(profile: str, mask: int, geometry: int = A100) -> list[int]:
    return [spot.start for spot in mig.legal_spots(geometry, mig.profile_code(profile), mask)]


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("1g.5gb", [0, 1, 2, 3, 4, 5, 6]),
        ("1g.10gb", [0, 2, 4, 6]),
        ("2g.10gb", [0, 2, 4]),
        ("3g.20gb", [0, 4]),
        ("4g.20gb", [0]),
        ("7g.40gb", [0]),
    ],
)
def test_an_empty_a100_takes_a_profile_at_its_legal_starts_only(profile: str, expected: list[int]) -> None:
    assert starts(profile, mig.empty_mask(A100)) == expected


def test_the_same_gigabytes_are_another_slice_on_a_larger_card() -> None:
    assert starts("1g.10gb", 0, mig.geometry_code("H100-80GB")) == [0, 1, 2, 3, 4, 5, 6]
    assert starts("1g.5gb", 0, mig.geometry_code("A100-80GB")) == []


def test_profiles_mix_as_long_as_they_do_not_overlap() -> None:
    left = 0b0000_1111  # a 3g.20gb at 0
    assert starts("3g.20gb", left) == [4]
    assert starts("4g.20gb", left) == []
    assert starts("2g.10gb", left) == [4]
    assert starts("1g.5gb", left) == [4, 5, 6]
    # a 1g.5gb in the middle of either half keeps every large profile out
    assert starts("3g.20gb", 0b0010_0010) == []


def test_the_last_memory_slice_is_out_of_reach_of_small_profiles() -> None:
    assert starts("1g.5gb", 0b0111_1111) == []
    assert mig.FREE_MILLI[A100, 0b0111_1111] == 125


def test_an_a30_has_four_slices() -> None:
    empty = mig.empty_mask(A30)
    assert mig.FREE_MILLI[A30, empty] == 1000
    assert starts("1g.6gb", empty, A30) == [0, 1, 2, 3]
    assert starts("2g.12gb", empty | 0b0001, A30) == [2]
    assert mig.FREE_MILLI[A30, empty | 0b0011] == 500


@pytest.mark.parametrize(("profile", "milli"), [("1g.5gb", 125), ("3g.20gb", 500), ("2g.12gb", 500)])
def test_a_slice_counts_as_its_share_of_the_memory_slices(profile: str, milli: int) -> None:
    assert mig.share_milli(mig.profile_code(profile)) == milli


def test_what_does_not_exist_is_refused() -> None:
    with pytest.raises(SettingError, match="5g"):
        Request(num_gpus=1, profile="5g.25gb")
    with pytest.raises(SettingError, match="one share of one GPU"):
        Request(num_gpus=2, profile="1g.5gb")
    with pytest.raises(SettingError, match="no MIG mode"):
        NodeSpec(8000, 1024, 2, "T4", partitioned=1)
    with pytest.raises(SettingError, match="cannot be partitioned"):
        NodeSpec(8000, 1024, 2, "A100-40GB", partitioned=3)


def test_a_partitioned_gpu_serves_slices_and_no_thousandths() -> None:
    spec = NodeSpec(8000, 1024, 2, "A100-40GB", partitioned=1)
    states = empty_states([spec])
    types = ("A100-40GB",)
    by_milli = demand_of(Request(num_gpus=1, gpu_milli=500), types)
    by_slice = demand_of(Request(num_gpus=1, profile="3g.20gb"), types)
    assert states.serves(by_milli).tolist() == [[True, False]]
    assert states.serves(by_slice).tolist() == [[False, True]]
