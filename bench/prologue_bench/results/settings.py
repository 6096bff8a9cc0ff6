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
    "limits": "frequency limits", "command_line": "kernel command line", "vulnerabilities": "vulnerabilities",
    "randomize_va_space": "randomize_va_space", "huge_pages": "transparent huge pages",
    "config": "kernel configuration", "compiler": "compiler of the kernel", "firmware": "firmware", "memory": "RAM",
    "programs": "programs of workloads",
}  # fmt: skip
_FREQUENCIES: Final = "frequencies"  # of cores, read after the runs
_COMPARED: Final = {**SETTINGS, _FREQUENCIES: "core frequencies in kHz"}
# What two boots of one machine may differ in: a kernel takes its own part of the RAM, and clocks are not exact.
_NEARLY: Final = {"memory": 0.01, _FREQUENCIES: 0.05}


def settings_of(boot: Boot) -> Reading:
    """Return what is compared between boots.

    What cores ran at is a part of it only if nothing but the governor ``performance`` was to decide it.
    """
    governors = boot.gate_before.get("governors") or ()
    fixed = bool(governors) and all(governor == "performance" for governor in governors)
    return {**boot.gate_before, _FREQUENCIES: boot.gate_after.get(_FREQUENCIES) if fixed else None}


def setup_differences(readings: Iterable[tuple[str, Reading]]) -> Iterator[str | None]:
    """Say for each reading, given with its name, where it differs from the alike ones before; None if nowhere.

    A setting that a reading does not have differs from nothing.
    """
    known: dict[str, tuple[object, str]] = {}
    for where, reading in readings:
        values = {name: reading[name] for name in _COMPARED if _known(reading.get(name))}
        shared = {name: (value, *known[name]) for name, value in values.items() if name in known}
        differences = [
            f"{_COMPARED[name]}: {_beside(value, other)}, but {_beside(other, value)} in {place}"
            for name, (value, other, place) in shared.items()
            if not _alike(name, value, other)
        ]
        if not differences:
            known = {name: (value, where) for name, value in values.items()} | known
        yield "; ".join(differences) or None


def _alike(name: str, value: object, other: object) -> bool:
    if name not in _NEARLY:
        return setting_text(value) == setting_text(other)
    pairs = list(zip(_numbers(value), _numbers(other), strict=False))
    same_count = len(_numbers(value)) == len(_numbers(other))
    return same_count and all(abs(a - b) <= _NEARLY[name] * max(a, b) for a, b in pairs)


def _numbers(value: object) -> list[float]:
    values = value if isinstance(value, list) else [value]
    return [number for number in values if isinstance(number, int | float)]


def _beside(value: object, other: object) -> str:
    """Write a setting; of a list or a command line only what the other one lacks."""
    parts, others = (
        item.split()
        if isinstance(item, str)
        else [setting_text(part) for part in item]
        if isinstance(item, list)
        else []
        for item in (value, other)
    )
    if len(parts) < 2 and len(others) < 2:
        return setting_text(value)
    return " ".join(part for part in parts if part not in others) or "nothing"


def void_unlike(boots: Sequence[Boot]) -> tuple[Boot, ...]:
    """Make boots void that ran with another governor, other CPUs ... than the ones before them that count."""
    counted = [boot for boot in boots if boot.void is None]
    # All of them agree, and their numbers change when sets are merged.
    differences = setup_differences(("them", settings_of(boot)) for boot in counted)
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
