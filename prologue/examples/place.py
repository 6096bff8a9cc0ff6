"""Puts the files of an example into the user's cache, where objdump and gdb can open what a report names."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from prologue.errors import OutputError, UsageError
from prologue.examples import PREFIX
from prologue.examples.listing import KernelListing
from prologue.outputs import new_file
from prologue.words import meant


@dataclass(frozen=True, slots=True)
class Example:
    """A kernel as a file, and as its memory had it while it ran, and a trace of it; None if there is none."""

    vmlinux: Path
    memory: KernelListing | None
    trace: Path | None


def example_names() -> tuple[str, ...]:
    """List the examples, without ``example:``."""
    names = (entry.name for entry in files(__package__).iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def place_example(argument: str) -> Example:
    """Write the files of ``example:NAME`` and return where they are; the same bytes each time.

    Raises:
        UsageError: no such example, or no place for a cache.
        OutputError: the cache cannot be written.

    """
    name = argument.removeprefix(PREFIX)
    if name not in example_names():
        known = example_names()
        near = meant(name, known) or f"there are {', '.join(PREFIX + each for each in known)}"
        raise UsageError(f"{argument}: no such example: {near}")
    return _place(name, _directory(name))


def _directory(name: str) -> Path:
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError as error:
        raise UsageError("this user has no home directory for the example's files: set XDG_CACHE_HOME") from error
    directory = base / "prologue" / "examples" / name
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot be created: {error.strerror}; set XDG_CACHE_HOME", path=directory) from error
    return directory


def _place(name: str, directory: Path) -> Example:
    source = files(__package__)
    listing = KernelListing(source.joinpath("kernel.lst").read_text("utf-8"))
    changes = tomllib.loads(source.joinpath(f"{name}.toml").read_text("utf-8"))
    listing.change(changes.get("file", {}))
    vmlinux, trace = directory / "vmlinux", directory / "trace"
    _write(vmlinux, listing.vmlinux())
    listing.change(changes.get("memory", {}))
    recorded = source.joinpath(f"{name}.perf")
    if recorded.is_file():
        _write(trace, recorded.read_bytes())
    return Example(vmlinux, listing if "memory" in changes else None, trace if recorded.is_file() else None)


def _write(path: Path, data: bytes) -> None:
    with new_file(path) as temporary:
        temporary.write_bytes(data)
