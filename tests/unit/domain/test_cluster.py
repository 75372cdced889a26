"""Quotas: never more than there is, and how they shrink."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.cluster import Cluster, Gpu, Node, Pool, check_quotas, shrink_quotas

fixed = settings(max_examples=200, deadline=None, derandomize=True)
quotas_strategy = st.lists(st.integers(0, 50), min_size=1, max_size=6).map(
    lambda sizes: {f"p{k}": size for k, size in enumerate(sizes)}
)


def test_a_node_lists_its_gpus_in_order():
    assert Node("n", 2, "big").gpus() == (Gpu("n", 0, "big"), Gpu("n", 1, "big"))


def test_a_cluster_has_the_gpus_of_its_nodes_or_else_of_its_quotas():
    pools = (Pool("b", 2), Pool("a", 3))
    assert Cluster(pools).capacity_gpus == 5
    assert Cluster(pools, (Node("n", 4), Node("m", 4))).capacity_gpus == 8
    assert list(Cluster(pools).quotas().items()) == [("b", 2), ("a", 3)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Node("n", 0), "node n: num_gpus is 0"),
        (lambda: Pool("a", -1), "pool a: quota_gpus is -1"),
        (lambda: Cluster((Pool("a", 1), Pool("a", 2))), "pool a is listed twice"),
        (lambda: Cluster((Pool("a", 1),), (Node("n", 1), Node("n", 1))), "node n is listed twice"),
        (lambda: Cluster((Pool("a", 3),), (Node("n", 2),)), "quotas add up to 3 GPUs, the cluster has 2"),
        (lambda: check_quotas({"a": 2, "b": -1}, 4), "pool b: quota is -1"),
        (lambda: check_quotas({"a": 2, "b": 3}, 4), "add up to 5 GPUs, the cluster has 4"),
        (lambda: shrink_quotas({"a": 2}, 3, None), "3 GPUs are lost, the quotas hold 2"),
        (lambda: shrink_quotas({"a": 2}, -1, None), "-1 GPUs are lost"),
        (lambda: shrink_quotas({"a": 2}, 1, "b"), "unknown owner pool b"),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_quotas_may_use_up_the_cluster_and_pools_may_have_none():
    check_quotas({"a": 4, "b": 0}, 4)
    assert Cluster((Pool("a", 0),)).capacity_gpus == 0


@pytest.mark.parametrize(
    ("quotas", "lost", "owner", "left"),
    [
        ({"a": 4, "b": 4}, 3, "a", {"a": 1, "b": 4}),
        ({"a": 2, "b": 6, "c": 3}, 5, "a", {"a": 0, "b": 4, "c": 2}),
        ({"a": 8, "b": 4}, 3, None, {"a": 6, "b": 3}),
        ({"a": 2, "b": 2, "c": 2}, 2, None, {"a": 1, "b": 1, "c": 2}),
        ({"a": 1, "b": 9}, 5, None, {"a": 0, "b": 5}),
        ({"a": 3, "b": 7}, 2, None, {"a": 2, "b": 6}),
        ({"a": 0, "b": 5}, 5, None, {"a": 0, "b": 0}),
        ({"a": 0, "b": 5}, 0, "a", {"a": 0, "b": 5}),
    ],
)
def test_the_owner_gives_up_first_then_all_in_proportion_by_largest_remainder(quotas, lost, owner, left):
    assert shrink_quotas(quotas, lost, owner) == left


@fixed
@given(quotas_strategy, st.data())
def test_exactly_what_is_lost_is_taken_and_the_owner_is_first(quotas, data):
    lost = data.draw(st.integers(0, sum(quotas.values())))
    owner = data.draw(st.none() | st.sampled_from(sorted(quotas)))
    left = shrink_quotas(quotas, lost, owner)
    assert list(left) == list(quotas)
    assert sum(left.values()) == sum(quotas.values()) - lost
    assert all(0 <= left[pool] <= quotas[pool] for pool in quotas)
    if owner is not None:
        assert left[owner] == max(0, quotas[owner] - lost)


@fixed
@given(quotas_strategy, st.data())
def test_what_no_pool_owns_is_taken_in_proportion(quotas, data):
    lost = data.draw(st.integers(0, sum(quotas.values())))
    left = shrink_quotas(quotas, lost, None)
    for pool, quota in quotas.items():
        assert abs((quota - left[pool]) - lost * quota / max(1, sum(quotas.values()))) < 1
