"""What is shipped for Prometheus and Grafana asks for metrics that there are."""

import json
import re

import pytest
import yaml
from support import REPOSITORY

from app.metrics.catalogue import CATALOGUE

RULES = REPOSITORY / "deploy" / "prometheus" / "antecast.rules.yml"
DASHBOARD = REPOSITORY / "deploy" / "grafana" / "antecast.json"


def queries():
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    yield from ((rule["alert"], rule["expr"]) for rule in group["rules"])
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]


@pytest.mark.parametrize(("where", "query"), list(queries()))
def test_each_query_names_metrics_and_labels_that_there_are(where, query):
    named = re.findall(r"\b(antecast_\w+?)(?:_bucket)?\b(?:\{([^}]*(?:\{\w+\}[^}]*)*)\})?", query)
    names = {name for name, _ in named}
    assert names <= set(CATALOGUE)
    assert names or "up{" in query, where
    labels = {label for _, chosen in named for label in re.findall(r"(\w+)(?:=~|!=|!~|=)", chosen)}
    grouped = {label.strip() for by in re.findall(r"\bby \(([^)]*)\)", query) for label in by.split(",")}
    known = {label for name in names for label in CATALOGUE[name].labels} | {"le", "job"}
    assert (labels | grouped) <= known


def test_each_alert_says_what_it_means_and_has_a_place_in_the_handbook():
    page = (REPOSITORY / "docs" / "operations.md").read_text(encoding="utf-8")
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]:
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert f"`{rule['alert']}`" in page


def test_the_handbook_lists_all_metrics():
    page = (REPOSITORY / "docs" / "operations.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(antecast_\w+)`", page, re.MULTILINE)) == set(CATALOGUE)
