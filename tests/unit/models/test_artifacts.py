"""Stored models: what is written is what is read, and nothing else is."""

import hashlib
import json
import os
import stat
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from models.artifacts import ArtifactError, Manifest, Parts, Rule, Span, read, write
from models.artifacts import folder as folders
from models.artifacts.parts import decode, encode

MANIFEST = Manifest(
    kind="lifetime",
    name="hazard",
    created="2026-01-05T00:00:00Z",
    training=Span(0.0, 86_400.0, 3, "0" * 64, "1" * 64),
    seed=7,
    features=("width", "limit"),
    settings={"window_s": None},
    scores={"pinball": 0.25, "c_index": None},
)


def parts() -> Parts:
    return Parts(
        texts={"trees": "tree\nnumérique\n"},
        values={"keys": ["a", 1, None], "seen_s": 1.5},
        arrays={"lives": np.arange(6, dtype=np.float32).reshape(2, 3), "is_open": np.array([True, False])},
    )


@pytest.fixture
def stored(tmp_path):
    place = tmp_path / "model"
    write(place, MANIFEST, parts())
    return place


def broken(place, rule: Rule, file: str) -> ArtifactError:
    with pytest.raises(ArtifactError) as caught:
        read(place)
    assert caught.value.fault.rule == rule.value
    assert caught.value.fault.source.endswith(file)
    return caught.value


def relist(place, **changes: bytes) -> None:
    """Change files and make the manifest agree: what is left is a folder that lies consistently."""
    document = json.loads((place / "manifest.json").read_text())
    for name, content in changes.items():
        file = name.replace("__", ".")
        (place / file).write_bytes(content)
        document["files"][file] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    (place / "manifest.json").write_text(json.dumps(document))


def edit(place, change) -> None:
    document = json.loads((place / "manifest.json").read_text())
    change(document)
    (place / "manifest.json").write_text(json.dumps(document))


# What is written is what is read.


def test_a_model_comes_back_as_it_was(stored):
    manifest, found = read(stored)
    assert manifest == MANIFEST
    assert found.texts == parts().texts
    assert found.values == parts().values
    assert found.arrays.keys() == parts().arrays.keys()
    for name, array in parts().arrays.items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)


DTYPES = st.sampled_from(["<f8", "<f4", "<i8", "<i4", "<u2", "|u1", "|b1"]).map(np.dtype)


@settings(max_examples=60, deadline=None)
@given(
    array=DTYPES.flatmap(
        lambda d: arrays_of.arrays(d, arrays_of.array_shapes(min_dims=0, min_side=0, max_dims=3))
    )
)
def test_every_array_comes_back_bit_for_bit(array):
    found = decode(encode(Parts(arrays={"a": array}))).arrays["a"]
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()


def test_equal_models_are_equal_bytes():
    assert encode(parts()) == encode(parts())


def test_only_the_owner_can_read_it(stored):
    assert stat.S_IMODE(stored.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in stored.iterdir()} == {0o600}


def test_a_model_is_never_overwritten(stored):
    with pytest.raises(ArtifactError, match="exists-already"):
        write(stored, MANIFEST, parts())


def test_a_crash_while_writing_leaves_nothing_that_looks_like_a_model(tmp_path, monkeypatch):
    def full(path, _content):
        if path.name == "manifest.json":
            raise OSError("no space left on the device")

    monkeypatch.setattr(folders, "write_file", full)
    with pytest.raises(OSError, match="no space"):
        write(tmp_path / "model", MANIFEST, parts())
    assert list(tmp_path.iterdir()) == []


# What may not be stored.


@pytest.mark.parametrize(
    "bad",
    [
        Parts(texts={"../trees": ""}),
        Parts(texts={"a.b": ""}),
        Parts(arrays={"": np.zeros(1)}),
        Parts(arrays={"a": np.array([object()])}),
        Parts(arrays={"a": np.array(["text"])}),
        Parts(arrays={"a": np.zeros(1, ">f8")}),
        Parts(arrays={"a": np.zeros((1, 1, 1, 1, 1))}),
        Parts(values={"a": float("nan")}),
        Parts(values={"a": object()}),
        Parts(texts={"a": "\ud800"}),
    ],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path, bad):
    with pytest.raises(ArtifactError):
        write(tmp_path / "model", MANIFEST, bad)
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_that_could_not_be_read_again_is_not_written(tmp_path):
    with pytest.raises(ArtifactError, match="kind"):
        write(tmp_path / "model", replace(MANIFEST, kind="astrology"), parts())
    assert list(tmp_path.iterdir()) == []


# Hostile and damaged folders.


def test_a_changed_byte_is_noticed(stored):
    content = bytearray((stored / "lives.npy").read_bytes())
    content[-1] ^= 1
    (stored / "lives.npy").write_bytes(content)
    broken(stored, Rule.HASH, "lives.npy")


def test_a_missing_file_is_noticed(stored):
    (stored / "trees.txt").unlink()
    broken(stored, Rule.MISSING, "trees.txt")


def test_a_longer_or_shorter_file_is_noticed(stored):
    (stored / "trees.txt").write_text("t")
    broken(stored, Rule.SIZE, "trees.txt")
    (stored / "trees.txt").write_text("t" * 1000)
    broken(stored, Rule.TOO_LARGE, "trees.txt")


def test_a_file_that_nobody_named_is_refused(stored):
    (stored / "extra.py").write_text("print('hello')")
    broken(stored, Rule.UNLISTED, "extra.py")


def test_links_are_not_followed(stored, tmp_path):
    elsewhere = tmp_path / "elsewhere.txt"
    elsewhere.write_bytes((stored / "trees.txt").read_bytes())
    (stored / "trees.txt").unlink()
    (stored / "trees.txt").symlink_to(elsewhere)
    broken(stored, Rule.NOT_REGULAR, "trees.txt")
    (tmp_path / "alias").symlink_to(stored)
    broken(tmp_path / "alias", Rule.NOT_A_FOLDER, "alias")


def test_a_pipe_is_refused_and_not_waited_for(stored):
    (stored / "trees.txt").unlink()
    os.mkfifo(stored / "trees.txt")
    broken(stored, Rule.NOT_REGULAR, "trees.txt")


@pytest.mark.parametrize("name", ["../secret.txt", "/etc/passwd", "a/b.txt", "..", "A.txt", "model.pkl", ""])
def test_names_that_lead_elsewhere_are_refused(stored, name):
    edit(stored, lambda document: document["files"].update({name: {"sha256": "0" * 64, "bytes": 1}}))
    with pytest.raises(ArtifactError) as caught:
        read(stored)
    assert caught.value.fault.rule == Rule.BAD_NAME.value


def test_oversize_is_refused_before_it_is_read(stored):
    edit(stored, lambda document: document["files"]["trees.txt"].update(bytes=folders.MAX_FILE_BYTES + 1))
    broken(stored, Rule.TOO_LARGE, "trees.txt")


def test_many_large_files_are_refused_by_their_sum(stored):
    many = {f"t{k}.txt": {"sha256": "0" * 64, "bytes": folders.MAX_FILE_BYTES} for k in range(3)}
    edit(stored, lambda document: document["files"].update(many))
    broken(stored, Rule.TOO_LARGE, "manifest.json")


def test_an_array_of_objects_is_never_unpickled(stored, tmp_path):
    pickled = tmp_path / "p.npy"
    np.save(pickled, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    relist(stored, lives__npy=pickled.read_bytes())
    broken(stored, Rule.DTYPE, "lives.npy")


def npy(header: str, body: bytes) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


def shaped(dtype: str, shape: str, order: str = "False") -> str:
    return f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': ({shape}), }}"


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (npy(shaped("<f8", "1000000000000,"), b"x" * 8), Rule.SHAPE),
        (npy(shaped("<f8", "1, 1, 1, 1, 1"), b"x" * 8), Rule.SHAPE),
        (npy(shaped("<f8", "-1,"), b""), Rule.NOT_AN_ARRAY),
        (npy(shaped("<f8", "1, 1", order="True"), b"x" * 8), Rule.NOT_AN_ARRAY),
        (npy(shaped("<U2", "1,"), b"x" * 8), Rule.DTYPE),
        (npy(shaped("|b1", "2,"), b"\x01\x02"), Rule.OUT_OF_RANGE),
        (
            npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }", b"x" * 8),
            Rule.NOT_AN_ARRAY,
        ),
        (npy("__import__('os').getcwd()", b""), Rule.NOT_AN_ARRAY),
        (npy("(" * 9000, b""), Rule.NOT_AN_ARRAY),
        (b"\x93NUMPY\x03\x00", Rule.NOT_AN_ARRAY),
        (b"\x93NUMPY\x01\x00", Rule.NOT_AN_ARRAY),
        (b"", Rule.NOT_AN_ARRAY),
        (b"PK\x03\x04 a zip", Rule.NOT_AN_ARRAY),
    ],
)
def test_arrays_that_lie_are_refused(stored, content, rule):
    relist(stored, lives__npy=content)
    broken(stored, rule, "lives.npy")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": 1, "a": 2}',
        b"[" * 100_000,
        b"[" * 70 + b"]" * 70,
        b"\xff",
    ],
)
def test_json_that_is_none_is_refused(stored, content):
    relist(stored, values__json=content)
    broken(stored, Rule.NOT_JSON, "values.json")


def test_text_that_is_none_is_refused(stored):
    relist(stored, trees__txt=b"\xff\xfe")
    broken(stored, Rule.NOT_TEXT, "trees.txt")


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.update(format_version=2),
        lambda document: document.update(format="other"),
    ],
)
def test_formats_of_later_days_are_refused(stored, change):
    edit(stored, change)
    broken(stored, Rule.FORMAT, "manifest.json")


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.update(kind="astrology"),
        lambda document: document.update(created="yesterday"),
        lambda document: document.update(seed=-1),
        lambda document: document.update(seed=True),
        lambda document: document.update(surprise=1),
        lambda document: document.pop("training"),
        lambda document: document["training"].update(data_sha256="abc"),
        lambda document: document["training"].update(num_jobs=1.5),
        lambda document: document["scores"].update(pinball="good"),
        lambda document: document.update(features=[1]),
        lambda document: document["files"]["trees.txt"].update(sha256="A" * 64),
        lambda document: document["files"].update({"trees.txt": []}),
    ],
)
def test_fields_that_are_not_what_they_must_be_are_refused(stored, change):
    edit(stored, change)
    broken(stored, Rule.FIELD, "manifest.json")


# What a model takes out of its parts.


@pytest.mark.parametrize(
    ("array", "rule"),
    [
        (np.zeros((2, 3), np.float64), Rule.DTYPE),
        (np.zeros((2, 4), np.float32), Rule.SHAPE),
        (np.zeros(6, np.float32), Rule.SHAPE),
        (np.full((2, 3), np.nan, np.float32), Rule.NOT_FINITE),
        (np.full((2, 3), np.inf, np.float32), Rule.NOT_FINITE),
    ],
)
def test_an_array_is_what_the_model_expects(array, rule):
    with pytest.raises(ArtifactError) as caught:
        Parts(arrays={"a": array}).array("a", "float32", (None, 3))
    assert (caught.value.fault.source, caught.value.fault.rule) == ("a.npy", rule.value)


def test_nan_and_infinity_pass_where_they_mean_something():
    given_parts = Parts(arrays={"a": np.array([np.nan, np.inf])})
    found = given_parts.array("a", "float64", (2,), may_be_nan=True, may_be_infinite=True)
    assert np.isnan(found[0])


def test_values_are_of_the_types_asked_for():
    values = Parts(values={"n": 1, "b": True, "t": "x", "none": None})
    assert values.value("n", float) == 1.0
    assert values.value("none", int, type(None)) is None
    for name, kind in (("b", int), ("b", float), ("t", int), ("missing", int)):
        with pytest.raises(ArtifactError, match=r"values\.json: bad-field"):
            values.value(name, kind)
