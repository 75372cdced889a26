"""Where a job may go: alone, beside one, or over several, within the rules of packed sets."""

from packed_worlds import make_nodes

from domain.jobs import Job
from solver.packing.floor import Floor


def job(job_id: str, width: int) -> Job:
    return Job(job_id, "all", 0.0, width, model="calm")


def floor_of(nodes: int, size: int, *running: tuple[str, int]) -> Floor:
    """Jobs alone on their GPUs, one after another."""
    floor = Floor(make_nodes(nodes, size))
    for name, width in running:
        place = floor.idle_place(width)
        assert place is not None
        floor.enter(job(name, width), place.gpus)
    return floor


def partners(floor: Floor, width: int) -> list[list[str]]:
    return [sorted(place.partners()) for place in floor.shared_places(job("new", width))]


def ride(floor: Floor, name: str, width: int, host: str) -> None:
    place = next(one for one in floor.shared_places(job(name, width)) if one.partners() == [host])
    floor.enter(job(name, width), place.gpus)


def test_idle_gpus_are_taken_where_they_leave_the_smallest_rest():
    floor = floor_of(2, 4, ("a", 3))
    place = floor.idle_place(1)
    assert place is not None
    assert [(gpu.node, gpu.index) for gpu in place.gpus] == [("n0", 3)]
    assert floor.idle_place(5) is not None
    assert floor.idle_place(6) is None, "a whole node, and two of one that has one"
    assert floor.idle_gpus() == 5


def test_equal_widths_share_all_gpus_one_to_one_and_nobody_joins_them():
    floor = floor_of(1, 4, ("a", 2))
    assert partners(floor, 2) == [["a"]]
    place = next(iter(floor.shared_places(job("new", 2))))
    assert set(place.gpus) == set(floor.tenants["a"].gpus)
    floor.enter(job("b", 2), place.gpus)
    assert partners(floor, 1) == []
    assert partners(floor, 4) == []


def test_nobody_rides_with_a_rider_and_a_host_takes_four():
    floor = floor_of(1, 8, ("host", 8))
    for k in range(4):
        assert ["host"] in partners(floor, 1)
        ride(floor, f"rider{k}", 1, "host")
    assert partners(floor, 1) == [], "a set of five is full, and its riders are no hosts"
    floor.leave("host")
    assert sorted(partners(floor, 1)) == [[f"rider{k}"] for k in range(4)]


def test_a_wide_job_starts_over_narrower_ones_that_share_with_nobody():
    floor = floor_of(1, 4, ("a", 1), ("b", 1), ("c", 1))
    assert ["a", "b", "c"] in partners(floor, 4)
    ride(floor, "d", 1, "a")
    assert ["a", "b", "c"] not in partners(floor, 4), "one of them has a rider"


def test_a_job_of_several_nodes_takes_whole_nodes():
    floor = floor_of(3, 2, ("a", 2), ("b", 1))
    found = list(floor.shared_places(job("new", 4)))
    assert found
    for place in found:
        nodes = {gpu.node for gpu in place.gpus}
        assert len(nodes) == 2
        assert len(place.gpus) == 4
    assert all(len(one) <= 4 for one in partners(floor, 4))


def test_what_has_left_is_forgotten_with_its_shares():
    floor = floor_of(1, 2, ("a", 1))
    place = next(iter(floor.shared_places(job("new", 1))))
    floor.enter(job("b", 1), place.gpus, (100, 40))
    gpu = place.gpus[0]
    assert floor.tenants["a"].shares == {gpu: (40, 100)}
    assert floor.tenants["b"].shares == {gpu: (100, 40)}
    floor.leave("b")
    assert floor.tenants["a"].shares == {}
    assert floor.tenants["a"].mates == {gpu: None}
