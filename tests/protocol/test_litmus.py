"""The machine against Arm's model: litmus programs with the verdicts of herd7 -variant ifetch."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from prologue.protocol.form import Model, read_model
from prologue.protocol.promela import translate
from prologue.protocol.spin import check_model, explore
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


@pytest.mark.thorough
@pytest.mark.parametrize("name", programs())
def test_the_machine_agrees(name: str) -> None:
    needs_tools("spin", "tcc")
    data = programs()[name]
    assert data["says"] == verdicts()[name]
    outcome = check_model(read_litmus(name, data))
    assert outcome.reason == {"Never": "", "Sometimes": "reached"}[data["says"]]
    assert outcome.states > 1


@pytest.mark.parametrize(
    ("name", "rule", "instead"),
    [
        ("SM.B+cachesync-isb", "oldest[OF(c, i)] = cached[i]; i++", "i++"),
        ("SM.B+cachesync-isb", "RAISE(cached[i], dropping[OF(c, i)]); ", ""),
        ("MP-inst+dc.cvau-dsb.ish-ic.vau-dsb.ish", "RAISE(oldest[OF(c, i)], then_cached[SEEN(s, k, i)]);", ""),
        ("MP.FF+dmb.st+cachesync-isb", "RAISE(clean_from[OF(c, i)], then_last[SEEN(s, k, i)]);", ""),
        ("MP.FF+dc-dsb+ic-dsb-isb", "RAISE(drop_from[OF(c, i)], then_clean[SEEN(s, k, i)]);", ""),
        ("MP.RF+dc.cvau-dmb.ish+dsb.ish-ic.ivau-dsb.ish-isb", "RAISE(clean[i], cleaning[OF(c, i)]); ", ""),
        ("MP.RF+dmb.st+dmb.ld-dc-dsb-ic-dsb-isb", "cleaning[OF(c, s)], clean_from[OF(c, s)]",
         "cleaning[OF(c, s)], last[s]"),
        ("SB.RF+dmb+dmb.st-cachesync-isb", "cleaning[OF(c, s)], clean_from[OF(c, s)]", "cleaning[OF(c, s)], last[s]"),
        ("SM.B+badcachesync-isb", "dropping[OF(c, s)], drop_from[OF(c, s)]", "dropping[OF(c, s)], last[s]"),
        ("MP.RF+dmb+ctrlisb-dc-dsb-ic-dsb-isb", "order_maintenance(at[1]); pc[1]", "pc[1]"),
        ("MP.RF+dmb.st+pickaddr-cachesyncisb", "order_maintenance(at[1]); if", "if"),
    ],
)  # fmt: skip
def test_a_rule_of_the_machine_decides_it(name: str, rule: str, instead: str) -> None:
    """A machine that is weaker or stronger by one rule no longer agrees with the verdict."""
    needs_tools("spin", "tcc")
    text = translate(read_litmus(name, programs()[name]))
    assert rule in text
    reached = bool(explore(text.replace(rule, instead), name).reason)
    assert reached == (verdicts()[name] == "Never")
