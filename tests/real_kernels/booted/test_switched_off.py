"""What a running kernel's switches stop stays registered, and nothing calls it; its text is as the audit expects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from prologue.cli.main import main
from prologue_bench.guest.vm import Machine
from tests.support.live_guest import TRACING
from tests.support.needs import needs_kernel, needs_tools
from tests.support.serial_guest import SerialGuest, serial_guest

pytestmark = [pytest.mark.kernel, pytest.mark.qemu, pytest.mark.extended]

_FUNCTION: Final = "version_proc_show"  # what nobody calls all the time
_LISTEN: Final = f"""\
cd {TRACING}; echo {_FUNCTION} >set_ftrace_filter; echo function >current_tracer
echo 'p:inside {_FUNCTION}+8' >kprobe_events; echo 1 >events/kprobes/enable"""
_OFF: Final = "echo 0 >/proc/sys/kernel/ftrace_enabled; echo 0 >/sys/kernel/debug/kprobes/enabled"
_ON: Final = "echo 1 >/proc/sys/kernel/ftrace_enabled; echo 1 >/sys/kernel/debug/kprobes/enabled"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("suite", ["bullseye", "bookworm", "trixie", "sid"])
def test_switches_stop_tracers_and_kprobes(suite: str, tmp_path: Path) -> None:
    needs_tools("qemu-system-aarch64", "cpio")
    vmlinux = needs_kernel(suite).vmlinux
    assert main(["image", str(vmlinux), "-o", str(tmp_path / "Image")]) == 0
    with serial_guest(tmp_path / "Image", tmp_path, Machine(memory=512)) as guest:
        guest.run(_LISTEN)
        assert called(vmlinux, guest) == ["ftrace_ops", "kprobe"]
        guest.run(_OFF)
        assert called(vmlinux, guest) == []
        guest.run(_ON)
        assert called(vmlinux, guest) == ["ftrace_ops", "kprobe"]
        guest.run(f"{_OFF}; echo nop >{TRACING}/current_tracer; {_ON}")
        assert called(vmlinux, guest) == ["kprobe"]


def called(vmlinux: Path, guest: SerialGuest) -> list[str]:
    """What a listing of a dump says is called at the function; what is listed and not called is stopped."""
    dump = str(guest.dump())
    read_json(guest, "audit", str(vmlinux), dump, key="findings", wanted=[])
    data = read_json(guest, "hooks", str(vmlinux), dump, key="not_known", wanted=[])
    groups = [each["called"] for each in data["functions"] if each["function"] == _FUNCTION]
    kinds = [data["listeners"][each["listener"]]["kind"] for group in groups for each in group]
    flags = {one["kind"]: one["flags"] for one in data["listeners"]}
    assert {kind for kind in ("ftrace_ops", "kprobe") if kind in flags and "STOPPED" not in flags[kind]} == set(kinds)
    return kinds


def read_json(guest: SerialGuest, command: str, *args: str, key: str, wanted: list[str]) -> dict[str, Any]:
    """What a command of ``live`` says; one of its lists is as wanted."""
    out = guest.directory / f"{command}.json"
    main(["live", command, *args, "--json", "-o", str(out), "-q"])
    data: dict[str, Any] = json.loads(out.read_text())
    assert data[key] == wanted
    return data
