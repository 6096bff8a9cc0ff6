"""Listeners of one function of a kernel with BTI: a listing has the order in which its trace has them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest

from prologue.cli.main import main
from tests.real_kernels.native import MACHINES, RECIPES
from tests.support.live_guest import TRACING
from tests.support.needs import needs_built_kernel, needs_tools
from tests.support.serial_guest import serial_guest

pytestmark = [pytest.mark.kernel, pytest.mark.builds, pytest.mark.qemu, pytest.mark.extended]

_READ: Final = "vfs_read"
# BTI, two slots, and a place after them; of the slots, ftrace has the second.
_EVENTS: Final = {"first": "p", "slot": "p+4", "after": "p+12", "end": "r", "later_end": "r"}


@pytest.mark.timeout(1200)
def test_the_order_is_that_of_the_trace(tmp_path: Path) -> None:
    needs_tools("qemu-system-aarch64", "cpio")
    vmlinux = needs_built_kernel(RECIPES["6.12"]).vmlinux
    assert main(["image", str(vmlinux), "-o", str(tmp_path / "Image")]) == 0
    with serial_guest(tmp_path / "Image", tmp_path, MACHINES["6.12"], []) as guest:
        lines = [f"{form[0]}:{name} {_READ}{form[1:]}" for name, form in _EVENTS.items()]
        guest.run("; ".join(f"echo '{line}' >>{TRACING}/kprobe_events" for line in lines))
        guest.run(f"echo 1 >{TRACING}/events/kprobes/enable; echo {_READ} >{TRACING}/set_ftrace_filter")
        call = "dd if=/proc/version bs=9 count=1 2>/dev/null"
        guest.run(f"echo function >{TRACING}/current_tracer; {call}; echo 0 >{TRACING}/tracing_on")
        trace = guest.run(f"grep ' dd-' {TRACING}/trace")
        out = tmp_path / "hooks.json"
        assert main(["live", "hooks", str(vmlinux), str(guest.dump()), "--json", "-o", str(out), "-q"]) == 0
    seen = re.findall(r"\d: (\w+)", trace)  # an event, or the function for its tracer
    data = json.loads(out.read_text())
    (read,) = (each for each in data["functions"] if each["function"] == _READ)
    names = [data["listeners"][called["listener"]]["name"].partition(":")[2] for called in read["called"]]
    assert len(names) == len(_EVENTS) + 1
    assert [name or _READ for name in names] == seen[: len(names)]
