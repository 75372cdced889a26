"""Every rule, format and finding of imports has its place in the documents."""

import re

import pytest
from support import REPOSITORY

from data.formats import FORMATS
from data.insight.finding import FindingId
from data.intake.rules import ImportRule

RULES = REPOSITORY / "docs" / "import-rules"


@pytest.mark.parametrize("rule", list(ImportRule), ids=str)
def test_a_rule_has_a_page_and_a_line_in_the_table(rule):
    page = (RULES / f"{rule.value}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {rule.value}\n")
    assert f"*{rule.action.value.capitalize()}.*" in page
    assert re.search(r"^    \S", page, re.MULTILINE), "a page shows an example"
    assert "**What to do.**" in page
    row = f"| [{rule.value}]({rule.value}.md) | {rule.action.value} | {rule.meaning} |"
    assert row in (RULES / "README.md").read_text(encoding="utf-8").splitlines()


def test_there_is_no_page_of_a_rule_that_is_gone():
    assert {path.stem for path in RULES.glob("*.md")} - {"README"} == {rule.value for rule in ImportRule}


@pytest.mark.parametrize("finding", list(FindingId), ids=str)
def test_a_finding_is_in_the_table(finding):
    text = (REPOSITORY / "docs" / "history-describe.md").read_text(encoding="utf-8")
    uses = [use.value for use in finding.forbids] + [f"{use.value} (weak)" for use in finding.weakens]
    assert f"| `{finding.value}` | {finding.meaning} | {', '.join(uses)} |" in text.splitlines()


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_format_is_in_the_table(name):
    text = (REPOSITORY / "docs" / "import.md").read_text(encoding="utf-8")
    assert f"| `{name}` | {FORMATS[name].kind.value} | {FORMATS[name].title} |" in text.splitlines()
