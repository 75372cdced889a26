"""Whatever Slurm can write is read back as what was meant; whatever else is refused, never misread."""

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from data.slurm.durations import elapsed_text, limit_text, parse_elapsed_s, parse_limit
from data.slurm.gpus import UNTYPED, parse_gres, parse_tres
from data.slurm.job_ids import MAX_TASK, parse_job_id
from data.slurm.states import parse_state
from domain.attempts import INHERITED_LIMIT, UNKNOWN_LIMIT, UNLIMITED, Limit, LimitKind

fixed = settings(derandomize=True, deadline=None, max_examples=300)

TYPES = st.sampled_from(["a100", "h100", "tesla-v100", "a100_1g.5gb", "nvidia_a100_3g.20gb"])
COUNTS = st.integers(1, 4096)


@st.composite
def limits_as_asked(draw):
    """A limit in one of the forms of `--time`, and its seconds counted the slow way."""
    days, hours, minutes, seconds = (draw(st.integers(0, most)) for most in (400, 23, 59, 59))
    forms = {
        f"{minutes}": 60 * minutes,
        f"{minutes}:{seconds:02d}": 60 * minutes + seconds,
        f"{hours}:{minutes:02d}:{seconds:02d}": 3600 * hours + 60 * minutes + seconds,
        f"{days}-{hours}": 86400 * days + 3600 * hours,
        f"{days}-{hours:02d}:{minutes:02d}": 86400 * days + 3600 * hours + 60 * minutes,
        f"{days}-{hours:02d}:{minutes:02d}:{seconds:02d}": 86400 * days
        + 3600 * hours
        + 60 * minutes
        + seconds,
    }
    return draw(st.sampled_from(sorted(forms.items())))


@fixed
@given(limits_as_asked())
def test_limit_in_every_form_of_the_option_has_its_seconds(asked):
    text, limit_s = asked
    assert parse_limit(text) == Limit(LimitKind.FINITE, float(limit_s))


@fixed
@given(
    st.one_of(
        st.integers(0, 10**8).map(lambda s: Limit(LimitKind.FINITE, float(s))),
        st.sampled_from([UNLIMITED, INHERITED_LIMIT, UNKNOWN_LIMIT]),
    )
)
def test_limit_that_is_printed_is_read_back(limit):
    assert parse_limit(limit_text(limit)) == limit


@fixed
@given(st.integers(0, 10**8))
def test_elapsed_time_that_is_printed_is_read_back(elapsed_s):
    assert parse_elapsed_s(elapsed_text(elapsed_s)) == elapsed_s


@fixed
@given(st.integers(0, 10**6), st.integers(0, 59), st.integers(0, 999))
def test_two_fields_of_elapsed_time_are_minutes_and_seconds(minutes, seconds, milliseconds):
    text = f"{minutes}:{seconds:02d}.{milliseconds:03d}"
    assert abs(parse_elapsed_s(text) - (60 * minutes + seconds + milliseconds / 1000)) < 1e-6


@fixed
@given(st.dictionaries(TYPES, COUNTS, max_size=3), st.integers(0, 8), st.booleans(), st.randoms())
def test_total_of_a_tres_string_is_never_counted_beside_its_types(by_type, untyped, has_total, random):
    entries = [f"gres/gpu:{name}={count}" for name, count in by_type.items()]
    has_total = has_total or untyped > 0
    if has_total:
        entries.append(f"gres/gpu={sum(by_type.values()) + untyped}")
    entries += ["cpu=8", "mem=64.5G", "billing=192"]
    random.shuffle(entries)
    found = parse_tres(",".join(entries))
    assert found.total == sum(by_type.values()) + untyped
    assert {name: n for name, n in found.by_type.items() if name != UNTYPED} == by_type


@fixed
@given(st.lists(st.tuples(st.one_of(st.just(UNTYPED), TYPES), COUNTS), min_size=1, max_size=4))
def test_entries_of_a_gres_string_add_up_whatever_stands_in_brackets(entries):
    parts = [f"gpu:{name}:{count}" if name else f"gpu:{count}" for name, count in entries]
    brackets = ("(S:0-1)", "(IDX:0-3,5)", "")
    text = ",".join(part + brackets[k % 3] for k, part in enumerate(parts))
    assert parse_gres(text).total == sum(count for _, count in entries)


@st.composite
def pending_arrays(draw):
    """An id of a pending array, its tasks counted the slow way, and its cap."""
    parts, tasks = [], set()
    for _ in range(draw(st.integers(1, 4))):
        first = draw(st.integers(0, 500))
        last = first + draw(st.integers(0, 100))
        stride = draw(st.integers(1, 7))
        form = draw(st.sampled_from(["one", "range", "stride"]))
        parts.append(
            {"one": f"{first}", "range": f"{first}-{last}", "stride": f"{first}-{last}:{stride}"}[form]
        )
        tasks |= {
            "one": {first},
            "range": {*range(first, last + 1)},
            "stride": {*range(first, last + 1, stride)},
        }[form]
    cap = draw(st.one_of(st.none(), st.integers(1, 50)))
    suffix = "" if cap is None else f"%{cap}"
    return f"4711_[{','.join(parts)}{suffix}]", len(tasks), cap


@fixed
@given(pending_arrays())
def test_pending_array_stands_for_its_tasks_each_counted_once(asked):
    text, num_tasks, cap = asked
    found = parse_job_id(text)
    assert (found.base, found.num_tasks, found.cap) == ("4711", num_tasks, cap)
    assert found.most_at_once == (num_tasks if cap is None else min(cap, num_tasks))


@fixed
@given(st.text(alphabet="0123456789_[]-,:%+. abGgpures/=()KMG\x00é", max_size=40))
def test_any_text_is_read_or_refused_by_a_value_error(text):
    for parse in (parse_limit, parse_elapsed_s, parse_tres, parse_gres, parse_job_id):
        with suppress(ValueError):
            parse(text)
    parse_state(text)


@fixed
@given(st.integers(0, MAX_TASK), st.integers(1, 9))
def test_a_range_of_millions_of_tasks_is_counted_without_holding_them(first, stride):
    found = parse_job_id(f"1_[0,{first}-{MAX_TASK}:{stride}]")
    assert found.num_tasks == len(range(first, MAX_TASK + 1, stride)) + (first > 0)
