"""Libraries as they are installed: how to get one that is missing, and whether one is of an unknown version."""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from prologue.errors import InstallationError

_REQUIREMENT: Final = re.compile(r"([\w.-]+)([^;\[]*)(?:;(.*))?")
_EXTRA: Final = re.compile(r"""extra == ["'](\w+)["']""")
_BOUND: Final = re.compile(r"(>=|<)([\d.]+)")
# Modules that commands import where they need them, with their extra and their library.
_MODULES: Final = {"elftools": ("live", "pyelftools"), "shtab": ("reports", "shtab")}
# Libraries without a wheel for some machine, and what to do there.
_WITHOUT_WHEEL: Final = {
    "drgn": "apt-get install gcc make pkg-config python3-dev libelf-dev libdw-dev, then pip install drgn builds it"
}


def how_to_install(extra: str, *names: str) -> str:
    """Say how to install libraries of one of the package's extras, all of them or those of these names."""
    wanted = [
        (name, bounds, marker)
        for name, bounds, marker in _requirements()
        if (match := _EXTRA.search(marker)) and match[1] == extra and (not names or name in names)
    ]
    if not wanted:  # prologue itself was not installed, but is imported from a clone
        return f"see the extra {extra} in prologue's pyproject.toml"
    machine = platform.machine()
    without = [name for name, _, marker in wanted if f"platform_machine != '{machine}'" in marker.replace('"', "'")]
    with_wheel = [name + bounds for name, bounds, _ in wanted if name not in without]
    return "; ".join(
        ([f"pip install {shlex.join(with_wheel)}"] if with_wheel else [])
        + [f"{name} has no wheel for {machine}: {_WITHOUT_WHEEL[name]}" for name in without]
    )


def how_to_get(module: str) -> str:
    """Say how to install what a module that could not be imported is part of."""
    return how_to_install(*_MODULES[module]) if module in _MODULES else "install prologue with its dependencies"


def check_installation() -> None:
    """Look whether each library is of a version that prologue was tried with: for an error that no input explains.

    Raises:
        InstallationError: one is not.

    """
    for name, version, bounds in _installed():
        for relation, bound in _BOUND.findall(bounds):
            if (_numbers(version) < _numbers(bound)) == (relation == ">="):
                what = f"{name} {version} is installed, and prologue needs {bounds}"
                raise InstallationError(f"{what}: pip install {shlex.quote(name + bounds)}")


def library_versions() -> list[str]:
    """List the installed libraries with their versions, without what only developers have."""
    extras = ((name, _EXTRA.search(marker)) for name, _, marker in _requirements())
    used = {name for name, match in extras if match is None or match[1] not in ("test", "dev")}
    return list(dict.fromkeys(f"{name} {version}" for name, version, _ in _installed() if name in used))


def _installed() -> Iterator[tuple[str, str, str]]:
    """Yield name, version and bounds of each library that is installed."""
    from importlib import metadata

    for name, bounds, _ in _requirements():
        with suppress(metadata.PackageNotFoundError):
            yield name, metadata.version(name), bounds


def _requirements() -> Iterator[tuple[str, str, str]]:
    """Yield name, bounds and marker of each library that the installed package names; none without metadata."""
    from importlib import metadata

    try:
        lines = metadata.requires("prologue") or []
    except metadata.PackageNotFoundError:
        return
    for line in lines:
        match = _REQUIREMENT.fullmatch(line)
        if match is not None:  # the package's own extras have brackets
            yield match[1], match[2].strip(), match[3] or ""


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, without what marks it as a candidate or a rebuild."""
    match = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
