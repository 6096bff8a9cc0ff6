"""The soak: it counts, keeps the logs of bad boots only, and takes a boot without an end for one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.kernels.soak import Outcome, main, mini_boot, report, soak
from tests.mini_kernel.build import Spec
from tests.support.needs import needs_tools


def test_logs_of_bad_boots_stay(tmp_path: Path) -> None:
    def once(log: Path, timeout: float) -> str:
        log.write_text("console")
        return f"no power-off within {timeout:.0f} s" if log.stem == "boot-3" else ""

    outcomes = list(soak(once, tmp_path, count=4, minutes=1, timeout=7))
    assert [(outcome.number, outcome.problem) for outcome in outcomes] == [
        (1, ""), (2, ""), (3, "no power-off within 7 s"), (4, ""),
    ]  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["boot-3.log"]
    assert list(soak(once, tmp_path, count=4, minutes=-1, timeout=7)) == []


def test_report() -> None:
    outcomes = [Outcome(1, 0.5, ""), Outcome(2, 30.25, "FAIL no power-off within 30 s"), Outcome(3, 1.5, "")]
    assert report(outcomes, 1000).splitlines() == [
        "3 boots of 1000: 2 well, 1 not",
        "seconds: median 1.50, longest 30.25",
        "boot 2: FAIL no power-off within 30 s",
    ]
    assert report([], 1000) == "0 boots of 1000: 0 well, 0 not"


@pytest.mark.thorough
@pytest.mark.qemu
def test_the_mini_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    needs_tools("qemu-system-aarch64", "aarch64-linux-gnu-gcc")
    words = ["soak", "--mini", "4,2", "-n", "2", "-o", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", words)
    assert main() == 0
    assert capsys.readouterr().out.startswith("2 boots of 2: 2 well, 0 not\n")
    assert list((tmp_path / "out").glob("boot-*")) == []
    assert main() == 2  # not a new directory


@pytest.mark.thorough
@pytest.mark.qemu
def test_a_boot_that_does_not_end(tmp_path: Path) -> None:
    needs_tools("qemu-system-aarch64", "aarch64-linux-gnu-gcc")
    once = mini_boot(Spec(layout="4,2", marker=2), tmp_path)
    assert once(tmp_path / "log", 0.01) == "FAIL no power-off within 0.01 s"
