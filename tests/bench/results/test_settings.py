"""Whether machines were set alike while they were measured."""

from __future__ import annotations

from typing import Any, Final

import pytest

from prologue_bench.results.settings import setup_differences, unknown_settings

QUIET: Final[dict[str, Any]] = {
    "busy": 3, "governors": ["performance"], "boost": 0, "online": "0-3", "affinity": "0-3", "taint": 0,
    "limits": [{"policy": "policy0", "min": 600000, "max": 1500000}],
    "command_line": "root=/dev/x quiet", "vulnerabilities": ["meltdown: Not affected", "spectre_v2: Mitigation: CSV2"],
    "huge_pages": "always [madvise] never", "memory": 4_000_000, "frequencies": [1_500_000],
    "programs": ["hackbench 4f"],
}  # fmt: skip
SLOWED: Final = [{**QUIET["limits"][0], "max": 1200000}]
POWERSAVE: Final = {**QUIET, "governors": ["powersave"], "limits": SLOWED}


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({**QUIET, "busy": 40, "taint": 512}, None),
        (POWERSAVE, "governors: powersave, but performance in a; "
                    "frequency limits: policy0 600000-1200000 kHz, but policy0 600000-1500000 kHz in a"),
        ({**QUIET, "boost": 1}, "boost: 1, but 0 in a"),
        ({**QUIET, "affinity": "2-3"}, "affinity: 2-3, but 0-3 in a"),
        ({**QUIET, "online": "0-2"}, "online CPUs: 0-2, but 0-3 in a"),
        ({**QUIET, "command_line": "root=/dev/x quiet mitigations=off"},
         "kernel command line: mitigations=off, but nothing in a"),
        ({**QUIET, "vulnerabilities": ["meltdown: Not affected", "spectre_v2: Vulnerable"]},
         "vulnerabilities: spectre_v2: Vulnerable, but spectre_v2: Mitigation: CSV2 in a"),
        ({**QUIET, "huge_pages": "[always] madvise never"},
         "transparent huge pages: [always] madvise, but always [madvise] in a"),
        ({**QUIET, "memory": 3_900_000}, "RAM: 3900000, but 4000000 in a"),
        ({**QUIET, "memory": 3_990_000, "frequencies": [1_499_000]}, None),
        ({**QUIET, "frequencies": [1_200_000]}, "core frequencies in kHz: 1200000, but 1500000 in a"),
        ({**QUIET, "programs": ["hackbench 00"]}, "programs of workloads: hackbench 00, but hackbench 4f in a"),
    ],
)  # fmt: skip
def test_boots_whose_settings_differ(other: dict[str, Any], said: str | None) -> None:
    """Whatever is known of two is compared, wherever they stand."""
    assert list(setup_differences([("a", QUIET), ("b", other), ("c", QUIET)])) == [None, said, None]
    late = [("x", {}), ("a", QUIET), ("y", {**QUIET, "boost": None}), ("b", other)]
    assert list(setup_differences(late)) == [None, None, None, said]


def test_what_differs_is_no_example_for_others() -> None:
    first = {**QUIET, "boost": None}
    odd = {**POWERSAVE, "boost": 1}
    assert [bool(found) for found in setup_differences([("a", first), ("b", odd), ("c", QUIET)])] == [
        False, True, False,
    ]  # fmt: skip


def test_settings_that_only_some_boots_have() -> None:
    half = {**QUIET, "governors": [], "limits": [{**QUIET["limits"][0], "min": None}], "affinity": "", "boost": None}
    assert not any(setup_differences([("a", half), ("b", QUIET), ("c", half)]))
    assert list(unknown_settings([half, QUIET, half])) == [
        ("affinity", 2), ("governors", 2), ("boost", 2), ("frequency limits", 2),
    ]  # fmt: skip
    assert not list(unknown_settings([QUIET, QUIET]))
    assert not list(unknown_settings([{}, dict.fromkeys(QUIET)]))
