"""The last line of a report is true: sums, states, and what did not run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from prologue.gate.baseline import Known
from prologue.gate.judge import JudgedFile, judge
from prologue.gate.settings import Config, Settings, combine
from prologue.gate.verify import Facts, Signed, Unverified, Verified
from prologue.report.closing import closing_line
from prologue.rules.base import Finding
from prologue.rules.registry import RULES
from tests.support.made_findings import ERROR, WARN, finding

NATIVE = Facts(kind="vmlinux", contract="native", state="processed", sites=43880, release="6.12.1")
OF_VMLINUX = sum("V" in rule.inputs for rule in RULES)
SIGNED: tuple[Signed, ...] = ("good", "none", "good", "unknown-key", "not checked")
MODULE = Facts(
    kind="module",
    contract=None,
    state="untouched",
    sites=6,
    release="6.12.1",
    vmlinux=Path("vmlinux"),
    vmlinux_release="6.12.1",
)


def settings(*ignore: str, baseline: Path | None = None) -> Settings:
    return combine(Config(), select=(), ignore=ignore, baseline=baseline)


def file(name: str, facts: Facts, *findings: Finding, ignore: tuple[str, ...] = (), inputs: str = "V") -> JudgedFile:
    result = Verified(path=Path(name), facts=facts, findings=findings, inputs=frozenset(inputs))  # type: ignore[arg-type]  # letters are the literals
    return JudgedFile(result, settings(*ignore))


def gone(name: str) -> JudgedFile:
    result = Unverified(path=Path(name), error=f"{name}: no such file", reason="no such file", exit_code=2)
    return JudgedFile(result, settings())


@pytest.mark.parametrize(
    ("every", "line"),
    [
        ([file("a", NATIVE)], "1 file: clean (43,880 sites, processed, native)"),
        ([file("a", replace(NATIVE, state="no sites", sites=0))], "1 file: clean (no sites, native)"),
        ([file("a", MODULE)], "1 file: clean (6 sites, untouched, module; modules of vmlinux)"),
        ([file("a", replace(MODULE, vmlinux=None))], "1 file: clean (6 sites, untouched, module; no kernel given)"),
        (
            [file("a", NATIVE), file("b", replace(NATIVE, sites=20))],
            "2 files: clean (2 vmlinux: 43,900 sites, processed, native)",
        ),
        (
            [file("a", NATIVE), file("b", replace(NATIVE, state="untouched", sites=1))],
            "2 files: clean (1 vmlinux: 43,880 sites, processed, native; 1 vmlinux: 1 site, untouched, native)",
        ),
        (
            [file("a", replace(MODULE, state="no sites", sites=0)), file("b", MODULE), file("c", MODULE)],
            "3 files: clean (1 module: no sites; 2 modules: 12 sites, untouched; modules of vmlinux)",
        ),
        (
            [file(str(number), replace(MODULE, signature=signed)) for number, signed in enumerate(SIGNED)],
            "5 files: clean (5 modules: 30 sites, untouched; modules of vmlinux; 2 signed by a key of the kernel, "
            "1 signed by another key, which cannot be checked, 1 signed, which was not checked)",
        ),
        (
            [file("a", NATIVE, finding(WARN, "a"), finding(ERROR, "a"))],
            "1 file: 1 error, 1 warn (43,880 sites, processed, native)",
        ),
        (
            [file("a", NATIVE), gone("b")],
            "2 files: 1 could not be verified (43,880 sites, processed, native)",
        ),
        ([gone("b")], "1 file: 1 could not be verified"),
        (
            [file("a", NATIVE, inputs="")],
            "1 file: 1 without an applicable rule (43,880 sites, processed, native)",
        ),
        (
            [file("a", NATIVE, ignore=("PL304", "PL303")), file("b", NATIVE, ignore=("PL304",))],
            "2 files: clean (2 vmlinux: 87,760 sites, processed, native; "
            f"{OF_VMLINUX - 2} of {OF_VMLINUX} rules that apply ran)",
        ),
        (
            [file("a", NATIVE, inputs="VPI")],
            "1 file: clean (43,880 sites, processed, native; compared with the file from before and the boot file)",
        ),
        ([file("a\nb: clean", replace(MODULE, vmlinux=Path("x\ny")))],
         r"1 file: clean (6 sites, untouched, module; modules of x\ny)"),
    ],
)  # fmt: skip
def test_the_line(every: list[JudgedFile], line: str) -> None:
    assert closing_line(judge(every, release=False)) == line


def test_known_findings_are_counted(tmp_path: Path) -> None:
    baseline = tmp_path / "known.toml"
    known = Known(rule=ERROR.code, reason="r", owner="o")
    baseline.write_text(f'[[known]]\nrule = "{known.rule}"\nreason = "r"\nowner = "o"\n')
    one = file("a", NATIVE, finding(ERROR, "a"), finding(ERROR, "a", offset=8))
    verdict = judge([one._replace(settings=settings(baseline=baseline))], release=False)
    assert closing_line(verdict) == "1 file: clean except for 2 known findings (43,880 sites, processed, native)"
    assert verdict.passed
    one = file("a", NATIVE, finding(ERROR, "a"), finding(WARN, "a"))
    verdict = judge([one._replace(settings=settings(baseline=baseline))], release=False)
    assert closing_line(verdict) == "1 file: 1 warn, 1 known finding (43,880 sites, processed, native)"
