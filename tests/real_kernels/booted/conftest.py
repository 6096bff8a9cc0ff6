"""A kernel of Debian's that runs, for the tests that log in to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prologue.cli.main import main
from tests.real_kernels.states import programs
from tests.support.live_guest import Guest, live_guest
from tests.support.needs import needs_kernel, needs_modules
from tests.support.tool import Tool

MODULES = ("overlay", "loop", "brd")


@pytest.fixture(scope="module", params=[pytest.param("bookworm", marks=pytest.mark.extended), "trixie"])
def guest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """6.1 where it is linked, 6.12 where KASLR puts it."""
    directory = tmp_path_factory.mktemp(f"live-{request.param}")
    kernel = needs_kernel(request.param)
    package = needs_modules(kernel)
    append = "nokaslr" if request.param == "bookworm" else ""
    with live_guest(
        kernel.vmlinux, directory, package=package, modules=MODULES, files=programs(), append=append
    ) as made:
        yield made


def audited(guest: Guest, source: Path | str, tool: Tool) -> dict[str, Any]:
    """What an audit of the kernel and its modules says, of which nothing may be wrong or unexplained."""
    command = ("live", "audit", guest.vmlinux, source, guest.ssh, "--modules", guest.modules, "--json")
    data: dict[str, Any] = tool(*command).json
    assert data["findings"] == []
    assert not [note for note in data["not_looked_at"] if "all of its text" in note]
    return data


def counted(data: dict[str, Any], mechanism: str) -> tuple[int, int, int]:
    """Words that a mechanism could change, that differ, and that could not be decided, in all files."""
    rows = [row for one in data["files"] for row in one["mechanisms"] if row["mechanism"] == mechanism]
    return tuple(sum(row[key] for row in rows) for key in ("words", "changed", "unsure"))


def listing(vmlinux: Path, dump: Path) -> dict[str, Any]:
    """What is attached to a kernel."""
    out = dump.with_name("hooks.json")
    assert main(["live", "hooks", str(vmlinux), str(dump), "--json", "-o", str(out), "-q"]) == 0
    data: dict[str, Any] = json.loads(out.read_text())
    return data
