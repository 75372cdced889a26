"""The demonstration as a user starts it: real processes, to its end and its report."""

import re
import subprocess
import sys
from pathlib import Path


def test_it_ends_by_itself_with_a_report_and_a_picture(tmp_path: Path):
    out = tmp_path / "demo"
    command = [sys.executable, "-m", "app", "demo", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    said = " ".join(done.stdout.split())
    assert "32, all ended" in said
    assert int(re.search(r"started early │ (\d+)", said)[1]) > 0
    assert int(re.search(r"lent │ (\d+) jobs", said)[1]) > 0
    assert re.search(r"squeezed │ [1-9]\d* jobs", said)
    for row in ("held", "sent back", "slowed", "plans"):
        assert f"│ {row} │" in said
    assert (out / "who-ran-where.png").read_bytes().startswith(b"\x89PNG")
