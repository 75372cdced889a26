"""The reconciler: rooms and orders by hand, everything else by property."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from antecast_executor.document import OnDisconnect, Placement, Role, Wanted
from antecast_executor.reconciler import Action, Limits, Observed, reconcile
from antecast_executor.record import OVER, RunState

GPUS = ("g0", "g1", "g2")


def want(name: str, gpus: tuple[str, ...] = ("g0",), share_pct: float = 100.0, **more: object) -> Placement:
    base = Placement(
        placement_id=name,
        job_id=name,
        rank=0,
        num_ranks=1,
        argv=("true",),
        env={},
        gpus=gpus,
        share_pct=share_pct,
        memory_mib=None,
        priority=0,
        state=Wanted.RUNNING,
        grace_s=1.0,
        on_disconnect=OnDisconnect.HOLD,
        role=Role.OWN,
    )
    return replace(base, **more)  # type: ignore[arg-type]


def seen(
    name: str,
    state: RunState = RunState.RUNNING,
    share_pct: float | None = 100.0,
    gpus: tuple[str, ...] = ("g0",),
) -> Observed:
    return Observed(name, gpus, state, share_pct)


def names(actions: tuple[Action, ...]) -> list[tuple[str, str]]:
    return [(item.primitive, item.placement_id) for item in actions]


def test_launches_what_is_missing() -> None:
    assert reconcile([want("a")], []).actions == (Action("launch", "a", 100.0),)


def test_stops_what_is_not_wanted_and_launches_only_when_it_has_gone() -> None:
    steps = reconcile([want("b")], [seen("a")])
    assert names(steps.actions) == [("stop", "a")]
    assert "not free yet" in steps.waiting["b"]
    steps = reconcile([want("b")], [seen("a", RunState.STOPPING)])
    assert (steps.actions, list(steps.waiting)) == ((), ["b"])
    assert names(reconcile([want("b")], [seen("a", RunState.ENDED)]).actions) == [("launch", "b")]


def test_what_is_leaving_leaves_though_it_is_wanted_again() -> None:
    steps = reconcile([want("a", share_pct=50.0)], [seen("a", RunState.STOPPING)])
    assert steps.actions == ()


def test_a_stop_on_another_gpu_holds_nothing_up() -> None:
    steps = reconcile([want("b", ("g1",))], [seen("a")])
    assert names(steps.actions) == [("stop", "a"), ("launch", "b")]


def test_squeezes_before_it_launches_beside() -> None:
    steps = reconcile([want("new", share_pct=40.0), want("old", share_pct=60.0)], [seen("old")])
    assert names(steps.actions) == [("squeeze", "old"), ("launch", "new")]


def test_two_that_compete_freely_start_at_once_and_are_left_alone() -> None:
    pair = [want("host"), want("rider")]
    assert names(reconcile(pair, []).actions) == [("launch", "host"), ("launch", "rider")]
    assert reconcile(pair, [seen("host"), seen("rider")]).actions == ()
    back = [seen("host", share_pct=60.0), seen("rider", share_pct=40.0)]
    assert reconcile(pair, back).actions == (Action("swell", "host", 100.0), Action("swell", "rider", 100.0))


def test_from_free_competition_to_parts_squeezes_come_first() -> None:
    pair = [want("host", share_pct=60.0), want("rider", share_pct=40.0)]
    here = [seen("host"), seen("rider", share_pct=30.0)]
    assert reconcile(pair, here).actions == (Action("squeeze", "host", 60.0), Action("swell", "rider", 40.0))
    limits = Limits(blocked=frozenset({("host", "squeeze")}))
    assert reconcile(pair, here, limits).actions == ()


def test_a_squeeze_that_has_to_wait_keeps_the_launch_waiting() -> None:
    limits = Limits(blocked=frozenset({("old", "squeeze")}))
    steps = reconcile([want("new", share_pct=40.0), want("old", share_pct=60.0)], [seen("old")], limits)
    assert steps.actions == ()
    assert "no room" in steps.waiting["new"]


def test_a_swell_waits_until_its_neighbour_has_gone() -> None:
    here = [seen("a", share_pct=50.0), seen("b", RunState.STOPPING, 50.0)]
    assert reconcile([want("a")], here).actions == ()
    assert names(reconcile([want("a")], here[:1]).actions) == [("swell", "a")]


def test_an_unknown_share_is_set_again() -> None:
    assert names(reconcile([want("a")], [seen("a", share_pct=None)]).actions) == [("swell", "a")]
    assert names(reconcile([want("a", share_pct=30.0)], [seen("a", share_pct=None)]).actions) == [
        ("squeeze", "a")
    ]


def test_an_unknown_share_beside_others_goes_low_first_and_grows_when_there_is_room() -> None:
    wanted = [want("a", share_pct=50.0)]
    here = [seen("a", share_pct=None), seen("b", RunState.STOPPING, 50.0), seen("c", RunState.STOPPING, 40.0)]
    assert reconcile(wanted, here).actions == (Action("squeeze", "a", 10.0),)
    here[0] = seen("a", share_pct=10.0)
    assert reconcile(wanted, here).actions == ()
    assert reconcile(wanted, here[:2]).actions == (Action("swell", "a", 50.0),)


def test_two_unknown_shares_on_a_gpu_do_not_wait_for_each_other() -> None:
    wanted = [want("a", share_pct=50.0), want("b", share_pct=50.0)]
    here = [seen("a", share_pct=None), seen("b", share_pct=None)]
    assert [action.value for action in reconcile(wanted, here).actions] == [10.0, 10.0]
    low = [seen("a", share_pct=10.0), seen("b", share_pct=10.0)]
    assert [action.value for action in reconcile(wanted, low).actions] == [50.0, 50.0]


def test_pauses_and_resumes() -> None:
    paused = want("a", state=Wanted.PAUSED)
    assert names(reconcile([paused], [seen("a")]).actions) == [("pause", "a")]
    assert reconcile([paused], [seen("a", RunState.PAUSED)]).actions == ()
    assert names(reconcile([want("a")], [seen("a", RunState.PAUSED)]).actions) == [("resume", "a")]
    assert reconcile([paused], []).actions == ()


def test_after_expiry_nothing_starts_and_on_disconnect_applies() -> None:
    wishes = [
        want("hold", ("g0",)),
        want("pause", ("g1",), on_disconnect=OnDisconnect.PAUSE),
        want("stop", ("g2",), on_disconnect=OnDisconnect.STOP),
        want("new", ("g3",)),
    ]
    here = [seen(item.placement_id, gpus=item.gpus) for item in wishes[:3]]
    steps = reconcile(wishes, here, Limits(may_launch=False, is_cut_off=True))
    assert names(steps.actions) == [("stop", "stop"), ("pause", "pause")]
    assert "expired" in steps.waiting["new"]


def test_nothing_starts_on_a_lost_gpu() -> None:
    steps = reconcile([want("a")], [], Limits(lost_gpus=frozenset({"g0"})))
    assert (steps.actions, steps.waiting) == ((), {"a": "GPU g0 is lost"})


shares = st.sampled_from([10.0, 25.0, 50.0, 100.0])
some_gpus = st.sets(st.sampled_from(GPUS), min_size=1).map(lambda found: tuple(sorted(found)))
catalogues = st.dictionaries(st.sampled_from("abcdef"), some_gpus, min_size=1)


@st.composite
def documents(draw: st.DrawFn, catalogue: dict[str, tuple[str, ...]]) -> list[Placement]:
    """Documents that would be accepted: two share a GPU at most, each with any share."""
    left = dict.fromkeys(GPUS, 2)
    found = []
    for name in draw(st.permutations(sorted(catalogue))):
        gpus, share_pct = catalogue[name], draw(shares)
        if draw(st.booleans()) and all(left[uuid] for uuid in gpus):
            left.update({uuid: left[uuid] - 1 for uuid in gpus})
            state, away = draw(st.sampled_from(Wanted)), draw(st.sampled_from(OnDisconnect))
            found.append(want(name, gpus, share_pct, state=state, on_disconnect=away))
    return found


def some_of(catalogue: dict[str, tuple[str, ...]]) -> st.SearchStrategy[set[str]]:
    return st.sets(st.sampled_from(sorted(catalogue)))


histories = catalogues.flatmap(
    lambda catalogue: st.lists(
        st.tuples(documents(catalogue), st.booleans(), some_of(catalogue), some_of(catalogue)),
        min_size=1,
        max_size=6,
    )
)


class Node:
    """A node that does what it is told, and watches that it is told nothing foolish."""

    def __init__(self) -> None:
        self.here: dict[str, Observed] = {}
        self.share_pct: dict[str, float] = {}
        self.stands: dict[str, bool] = {}

    def do(self, action: Action, desired: dict[str, Placement]) -> None:
        name = action.placement_id
        before_pct = {uuid: self.given_pct(uuid) for uuid in GPUS}
        if action.primitive == "launch":
            self._launch(desired[name], desired)
        else:
            before = self.here[name]
            assert before.state not in OVER | {RunState.STOPPING}, "what leaves is left alone"
            self.here[name] = _after(before, action)
        if action.value is not None and action.primitive in {"launch", "squeeze", "swell"}:
            self.share_pct[name] = action.value
        if action.primitive in {"launch", "pause", "resume"}:
            self.stands[name] = action.primitive == "pause"
        for uuid in GPUS:
            wanted_pct = sum(item.share_pct for item in desired.values() if uuid in item.gpus)
            # More than that may be left of an earlier document, but nothing is added to it.
            assert self.given_pct(uuid) <= max(100.0, wanted_pct, before_pct[uuid])

    def _launch(self, wanted: Placement, desired: dict[str, Placement]) -> None:
        assert wanted.placement_id not in self.here, "a placement is started once"
        for uuid in wanted.gpus:
            for other in self.live(uuid):
                assert other.placement_id in desired, "nothing starts beside what has to leave"
                assert other.state is not RunState.STOPPING
        self.here[wanted.placement_id] = seen(
            wanted.placement_id, gpus=wanted.gpus, share_pct=wanted.share_pct
        )

    def given_pct(self, uuid: str) -> float:
        return sum(self.share_pct[item.placement_id] for item in self.live(uuid))

    def live(self, uuid: str) -> list[Observed]:
        return [item for item in self.here.values() if uuid in item.gpus and item.state not in OVER]

    def let_leave(self) -> None:
        for name, item in self.here.items():
            if item.state is RunState.STOPPING:
                self.here[name] = replace(item, state=RunState.ENDED)

    def forget(self, names_: set[str], *, held: bool) -> None:
        """The executor died while it changed them: what holds is not known."""
        for name in names_ & self.here.keys():
            item = self.here[name]
            if not held:
                self.here[name] = replace(item, share_pct=None)
            elif item.state in {RunState.RUNNING, RunState.PAUSED}:
                # Either state may be the one in the journal.
                other = RunState.PAUSED if item.state is RunState.RUNNING else RunState.RUNNING
                self.here[name] = replace(item, state=other, is_hold_known=False)


def _after(before: Observed, action: Action) -> Observed:
    if action.primitive in {"squeeze", "swell"}:
        return replace(before, share_pct=action.value)
    states = {"stop": RunState.STOPPING, "pause": RunState.PAUSED, "resume": RunState.RUNNING}
    return replace(before, state=states[action.primitive], is_hold_known=True)


def settle(node: Node, desired: list[Placement], limits: Limits, leave_every: int) -> None:
    """Tick until there is nothing to do."""
    by_name = {item.placement_id: item for item in desired}
    order = ["stop", "pause", "squeeze", "resume", "swell", "launch"]
    for tick in range(30):
        actions = reconcile(desired, list(node.here.values()), limits).actions
        ranks = [order.index(item.primitive) for item in actions]
        assert ranks == sorted(ranks), "room is made before it is taken"
        for action in actions:
            node.do(action, by_name)
        leaving = [item for item in node.here.values() if item.state is RunState.STOPPING]
        if not actions and not leaving:
            return
        if tick % leave_every == 0:
            node.let_leave()
    raise AssertionError("it does not settle")


@settings(max_examples=300, deadline=None)
@given(histories, st.integers(1, 3))
def test_whatever_comes_the_node_gets_to_what_is_wanted(
    history: list[tuple[list[Placement], bool, set[str], set[str]]], leave_every: int
) -> None:
    node = Node()
    for desired, is_cut_off, shares_lost, holds_lost in history:
        node.forget(shares_lost, held=False)
        node.forget(holds_lost, held=True)
        settle(node, desired, Limits(may_launch=not is_cut_off, is_cut_off=is_cut_off), leave_every)
        _check_end(node, desired, is_cut_off=is_cut_off)


def _check_end(node: Node, desired: list[Placement], *, is_cut_off: bool) -> None:
    by_name = {item.placement_id: item for item in desired}
    live = {name: item for name, item in node.here.items() if item.state not in OVER}
    assert live.keys() <= by_name.keys()
    for name, item in live.items():
        wanted = by_name[name]
        assert item.share_pct == node.share_pct[name] == wanted.share_pct
        assert not (is_cut_off and wanted.on_disconnect is OnDisconnect.STOP)
        rests = wanted.state is Wanted.PAUSED or (is_cut_off and wanted.on_disconnect is OnDisconnect.PAUSE)
        assert item.state is (RunState.PAUSED if rests else RunState.RUNNING)
        assert node.stands[name] is rests
    if not is_cut_off:
        missing = [item for name, item in by_name.items() if name not in node.here]
        assert all(item.state is Wanted.PAUSED for item in missing)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_the_same_picture_gives_the_same_actions(data: st.DataObject) -> None:
    catalogue = data.draw(catalogues)
    desired = data.draw(documents(catalogue))
    states = data.draw(st.dictionaries(st.sampled_from(sorted(catalogue)), st.sampled_from(RunState)))
    observed = [seen(name, state, data.draw(shares), catalogue[name]) for name, state in states.items()]
    steps = reconcile(desired, observed)
    assert reconcile(desired, observed) == steps
    over = {item.placement_id for item in observed if item.state in OVER}
    assert not over & {item.placement_id for item in steps.actions}
