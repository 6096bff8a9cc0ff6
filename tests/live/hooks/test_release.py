"""What is attached to a kernel of a release that was not compared: suspects accuse nobody, and are not passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.errors import UNDECIDED
from tests.live.hooks.hooked import make, saved
from tests.support.tool import Tool

UNLISTED = {"hook+16": 1 << 12}  # FTRACE_OPS_FL_ENABLED is gone: nothing on the list traces vfs_read


@pytest.mark.parametrize(("release", "status", "hooks"), [(b"6.12.0", 1, 0), (b"9.99.0", UNDECIDED, 1)])
def test_a_suspect_is_a_finding_or_not_decided(
    release: bytes, status: int, hooks: int, tmp_path: Path, tool: Tool
) -> None:
    vmlinux = make(tmp_path)
    core = saved(vmlinux, UNLISTED)
    for file in (vmlinux, core):
        file.write_bytes(file.read_bytes().replace(b"Linux version 6.12.0", b"Linux version " + release))
    command = ["live", "audit", str(vmlinux), str(core), "--allow-undecided", "--select", "PL514"]
    data = tool(*command, "--json", status=status).json
    assert (data["passed"], data["undecided"]["hooks"]) == (False, hooks)
    assert [finding["code"] for finding in data["findings"]] == ["PL514"] * (status == 1)
    text = tool(*command, status=status).out
    assert ("nothing wrong found, 1 suspect not decided among what is attached" in text) == bool(hooks)
