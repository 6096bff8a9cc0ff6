"""The machine against Arm's model: litmus programs with the verdicts of herd7 -variant ifetch."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from prologue.protocol.form import Model, read_model
from prologue.protocol.spin import check_model
from tests.support.needs import needs_tools

HERE = Path(__file__).parent / "litmus"
VERDICTS = HERE / "verdicts.txt"
# Those that have no translation, and why.
UNTRANSLATED = {
    "coFW-pa2": "the site and the variable are one physical page under two addresses; the machine has no translation",
    "SB-bnop-cachesyncs3": "IC IALLU; the Arm ARM lets it act on its own CPU only, the verdict is that of a broadcast",
}


def read_litmus(name: str, data: dict[str, Any]) -> Model:
    """One thread to a CPU, and no scheduler; words off the list behave as listed ones, as they do in herd7."""
    threads = sorted(key for key in data if key.startswith("P"))
    tasks = {key: {"program": data[key], "place": k} for k, key in enumerate(threads)}
    kept: dict[str, Any] = {key: data[key] for key in ("code", "data", "brk", "exists") if key in data}
    return read_model({**kept, "tasks": tasks, "cpus": len(threads), "either": True, "preempt": False}, name)


def programs() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for file in sorted(HERE.glob("*.toml")):
        for name, data in tomllib.loads(file.read_text()).items():
            assert name not in found
            found[name] = data
    return found


def verdicts() -> dict[str, str]:
    lines = [line.split() for line in VERDICTS.read_text().splitlines() if not line.startswith("#")]
    return dict(lines)


def test_nearly_all_translate() -> None:
    known = verdicts()
    assert len(known) == 54
    assert programs().keys() | UNTRANSLATED.keys() == known.keys()
    assert not programs().keys() & UNTRANSLATED.keys()
    assert len(programs()) >= 45


@pytest.mark.parametrize("name", programs())
def test_the_machine_agrees(name: str) -> None:
    needs_tools("spin", "gcc")
    data = programs()[name]
    assert data["says"] == verdicts()[name]
    outcome = check_model(read_litmus(name, data))
    assert outcome.reason == {"Never": "", "Sometimes": "reached"}[data["says"]]
    assert outcome.states > 1
