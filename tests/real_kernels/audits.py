"""Audits of kernels that run, in which nothing may be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from prologue.cli.main import main
from tests.support.live_guest import Guest


def audited(guest: Guest, source: Path | str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What an audit of the kernel and its modules says, of which nothing may be wrong or unexplained."""
    capsys.readouterr()
    command = ["live", "audit", str(guest.vmlinux), str(source), guest.ssh, "--modules", str(guest.modules)]
    assert main([*command, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["findings"] == []
    assert not [note for note in data["not_looked_at"] if "all of its text" in note]
    return cast("dict[str, Any]", data)


def counted(data: dict[str, Any], mechanism: str) -> tuple[int, int, int]:
    """Words that a mechanism could change, that differ, and that could not be decided, in all files."""
    rows = [row for one in data["files"] for row in one["mechanisms"] if row["mechanism"] == mechanism]
    return tuple(sum(row[key] for row in rows) for key in ("words", "changed", "unsure"))
