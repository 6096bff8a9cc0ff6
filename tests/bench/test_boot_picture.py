"""``bench/boot_picture.py``: a bar for each boot that was counted, from the files that ``exact_counts.py`` prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "bench" / "boot_picture.py"


def draw(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, check=False)


def counted(directory: Path) -> Path:
    """Write counts of a kernel of 1,000 sites: 640 and 30 instructions for each as linked, 7 and 20 processed."""
    boot = {"release": "7.2.13", "sites": 1000, "ftrace_init": 640_000, "relocation": 30_000}
    build = {**boot, "ftrace_init": 7_000, "relocation": 20_000}
    path = directory / "counts.json"
    path.write_text(json.dumps({"schema": "prologue.exact-counts/1", "kernels": [{"boot": boot, "build": build}]}))
    return path


def test_each_boot_has_a_bar_with_its_numbers(tmp_path: Path) -> None:
    out, counts = tmp_path / "boot.svg", counted(tmp_path)
    done = draw(counts, f"the series={counts}:build", "-o", out)
    assert (done.stderr, done.stdout) == ("", f"{out}: 3 boots\n")
    texts = [text.strip() for text in re.findall(r"<text[^>]*>([^<]*)</text>", out.read_text())]
    assert [text for text in texts if "processed" in text] == [
        "7.2.13, not processed", "7.2.13, processed", "the series, processed",
    ]  # fmt: skip
    assert [text for text in texts if " + " in text] == ["640.0 + 30.0", "7.0 + 20.0", "7.0 + 20.0"]


def test_another_file_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "scan.json"
    other.write_text('{"schema": "prologue.scan/2"}')
    done = draw(other, "-o", tmp_path / "boot.svg")
    assert done.returncode == 2
    assert done.stderr == (
        f"boot_picture: {other}: has no exact counts: give what bench/exact_counts.py --json printed\n"
    )
    assert not (tmp_path / "boot.svg").exists()
