"""Text models are looked through before LightGBM reads them."""

import lightgbm
import numpy as np
import pytest

from models.artifacts import ArtifactError, Parts
from models.artifacts.trees import booster_of


def table() -> np.ndarray:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3))
    rows[::7, 1] = np.nan
    return rows


def boosted(least: int = 20) -> lightgbm.Booster:
    rows = table()
    labels = (rows[:, 0] * np.nan_to_num(rows[:, 1]) + rows[:, 2] > 0) * 1.0
    settings = {"objective": "binary", "num_leaves": 6, "min_data_in_leaf": least, "verbosity": -1}
    settings |= {"deterministic": True, "force_row_wise": True, "num_threads": 1}
    return lightgbm.train(settings, lightgbm.Dataset(rows, labels), 4)


TEXT = boosted().model_to_string()


@pytest.mark.parametrize("least", [20, 1000], ids=["trees", "stumps of one leaf"])
def test_a_model_comes_back_and_says_the_same_to_the_last_bit(least):
    booster = boosted(least)
    again = booster_of(Parts(texts={"trees": booster.model_to_string()}), "trees", 3)
    np.testing.assert_array_equal(
        again.predict(table(), raw_score=True), booster.predict(table(), raw_score=True)
    )
    assert again.model_to_string() == booster.model_to_string()


def changed(line: str, to: str) -> str:
    """The model with the first line of a key changed, and the length of its tree kept right."""
    at = TEXT.index(f"\n{line}=") + 1
    old = TEXT[at : TEXT.index("\n", at)]
    new = f"{line}={to}"
    text = TEXT.replace(old, new, 1)
    sizes = TEXT.split("tree_sizes=")[1].split("\n")[0]
    if at < TEXT.index("Tree=0"):
        return text
    first, *others = sizes.split()
    return text.replace(sizes, " ".join([str(int(first) + len(new) - len(old)), *others]), 1)


def test_a_changed_line_that_is_as_good_is_read():
    values = TEXT.split("leaf_value=")[1].split("\n")[0].split()
    booster_of(Parts(texts={"trees": changed("leaf_value", " ".join(["0.5", *values[1:]]))}), "trees", 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "first line"),
        ("tree\n\n", "version"),
        ("pickle" + TEXT, "first line"),
        (TEXT.replace("version=v4", "version=v5"), "version"),
        (TEXT.replace("num_class=1", "num_class=2", 1), "num_class"),
        (changed("max_feature_idx", "9"), "max_feature_idx"),
        (changed("feature_infos", "none"), "feature_infos"),
        (changed("tree_sizes", "5 5 5 5"), "Tree|tree"),
        (changed("tree_sizes", "-5"), "tree_sizes"),
        (changed("tree_sizes", "100000000000 5 5 5"), "tree"),
        (TEXT.replace("end of trees", "end of tries"), "as long as"),
        (changed("num_leaves", "100000"), "leaves"),
        (changed("num_leaves", "2"), "values"),
        (changed("num_leaves", "x"), "literal"),
        (changed("num_cat", "1"), "categories"),
        (changed("split_feature", "0 1 2 3 0"), "column"),
        (changed("split_feature", "0"), "splits"),
        (changed("decision_type", "1 2 2 2 2"), "category"),
        (changed("left_child", "0 0 0 0 0"), "circle"),
        (changed("left_child", "1 2 3 4 4096"), "child"),
        (changed("right_child", "-1 -1 -1 -1 -1"), "child"),
        (changed("leaf_value", "nan nan nan nan nan nan"), "finite"),
        (changed("threshold", "nan 1 1 1 1"), "no number"),
        (TEXT + "é", "ASCII"),
    ],
)
def test_a_model_that_leads_elsewhere_is_refused(text, said):
    with pytest.raises(ArtifactError, match=said):
        booster_of(Parts(texts={"trees": text}), "trees", 3)


def test_a_model_for_other_columns_is_refused():
    with pytest.raises(ArtifactError, match=r"trees\.txt: bad-field"):
        booster_of(Parts(texts={"trees": TEXT}), "trees", 4)
    with pytest.raises(ArtifactError, match="missing-file"):
        booster_of(Parts(), "trees", 3)
