"""The settings of a machine while it was measured, and whether boots agree in them: if not, they cannot be compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from prologue_bench.errors import BenchError
from prologue_bench.results.model import Boot

Reading = Mapping[str, Any]

SETTINGS: Final = {
    "online": "online CPUs", "affinity": "affinity", "governors": "governors", "boost": "boost",
    "limits": "frequency limits",
}  # fmt: skip


def setup_differences(readings: Iterable[tuple[str, Reading]]) -> Iterator[str | None]:
    """Say for each reading, given with its name, where it differs from the alike ones before; None if nowhere.

    A setting that a reading does not have differs from nothing.
    """
    known: dict[str, tuple[str, str]] = {}
    for where, reading in readings:
        values = {name: setting_text(reading[name]) for name in SETTINGS if _known(reading.get(name))}
        differences = [
            f"{SETTINGS[name]}: {value}, but {known[name][0]} in {known[name][1]}"
            for name, value in values.items()
            if name in known and known[name][0] != value
        ]
        if not differences:
            known = {name: (value, where) for name, value in values.items()} | known
        yield "; ".join(differences) or None


def void_unlike(boots: Sequence[Boot]) -> tuple[Boot, ...]:
    """Make boots void that ran with another governor, other CPUs ... than the ones before them that count."""
    counted = [boot for boot in boots if boot.void is None]
    # All of them agree, and their numbers change when sets are merged.
    differences = setup_differences(("them", boot.gate_before) for boot in counted)
    odd = {boot.number: why for boot, why in zip(counted, differences, strict=True) if why is not None}
    return tuple(
        replace(b, void=f"settings differ from earlier boots: {odd[b.number]}") if b.number in odd else b for b in boots
    )


def require_alike(readings: Iterable[tuple[str, Reading]]) -> None:
    """Refuse readings, each given with its name, that differ from the ones before.

    Raises:
        BenchError: they do, with the name of the first one and both values.

    """
    named = list(readings)
    for (where, _), difference in zip(named, setup_differences(named), strict=True):
        if difference is not None:
            raise BenchError(f"{where}: settings differ: {difference}")


def unknown_settings(readings: Iterable[Reading]) -> Iterator[tuple[str, int]]:
    """Yield the settings that only some readings have, each with the number of readings without it."""
    everything = list(readings)
    for name, setting in SETTINGS.items():
        silent = sum(not _known(reading.get(name)) for reading in everything)
        if 0 < silent < len(everything):
            yield setting, silent


def _known(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(map(_known, value))
    if isinstance(value, dict):
        return None not in (value.get("min"), value.get("max"))
    return value not in (None, "")


def setting_text(value: object) -> str:
    """Write a setting as sentences show it."""
    if isinstance(value, list):
        return " ".join(setting_text(item) for item in value) or "none"
    if isinstance(value, dict):
        return f"{value.get('policy')} {value.get('min')}-{value.get('max')} kHz"
    return str(value)
