"""The page for newcomers is true: its reader, as it stands there, reads its file as it says."""

import importlib.util
import re

import pytest
from support import REPOSITORY

from app.import_lines import file_lines
from data.formats import FORMATS
from data.intake import driver
from data.intake.format import ReadOptions
from data.shelf.store import HistoryStore

PAGE = (REPOSITORY / "docs" / "add-a-format.md").read_text(encoding="utf-8")


def block(language):
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return found


@pytest.fixture
def labsched(tmp_path, monkeypatch):
    path = tmp_path / "labsched.py"
    path.write_text(block("python"), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("labsched", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(driver, "FORMATS", {**FORMATS, "labsched": module.FORMAT})
    return module


@pytest.mark.usefixtures("labsched")
def test_the_reader_of_the_page_reads_the_file_of_the_page(tmp_path):
    (tmp_path / "log.txt").write_text(block("text"))
    store = HistoryStore(tmp_path / "history")
    with store.importing() as into:
        report = driver.import_file(tmp_path / "log.txt", "auto", ReadOptions(cluster="lab"), into)
        again = driver.import_file(tmp_path / "log.txt", "auto", ReadOptions(cluster="lab"), into)
    assert report.fault is None, report.fault
    assert (report.read, report.accepted, report.repaired, report.rejected) == (6, 3, 2, 1)
    assert (again.new, again.updated) in {(0, 0), (None, None)}
    records = {one.raw_id: one for one in store.records("lab")}
    assert set(records) == {"17", "18", "19", "20", "21"}
    assert records["17"].occupancy_s == 3600.0
    assert records["19"].gpus_asked_milli == 500
    assert records["20"].gpus_asked_milli is None
    assert records["18"].start_s is None


@pytest.mark.usefixtures("labsched")
def test_what_the_page_says_is_said(tmp_path):
    (tmp_path / "log.txt").write_text(block("text"))
    report = driver.import_file(tmp_path / "log.txt", "auto", ReadOptions(cluster="lab"), None)
    shown = re.search(r"^    \$ antecast import log.txt.*?\n\n", PAGE, re.MULTILINE | re.DOTALL)[0]
    wanted = [line.removeprefix("    ").partition("...")[0] for line in shown.rstrip().splitlines()[1:]]
    said = list(file_lines(report))
    assert said[0].replace(str(tmp_path / "log.txt"), "log.txt").startswith(wanted[0])
    assert said[1:4] == wanted[1:]
