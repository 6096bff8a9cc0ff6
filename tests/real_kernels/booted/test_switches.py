"""Listeners of one function of a running kernel: a listing knows which are switched off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from prologue_bench.guest.vm import Machine
from tests.real_kernels.booted.conftest import listing
from tests.support.live_guest import TRACING
from tests.support.needs import needs_kernel, needs_tools
from tests.support.serial_guest import SerialGuest, serial_guest
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.qemu, pytest.mark.extended]


def called(data: dict[str, Any], function: str) -> list[dict[str, Any]]:
    """What is called at a function."""
    groups = [each["called"] for each in data["functions"] if each["function"] == function]
    return [data["listeners"][each["listener"]] for group in groups for each in group]


_SHOWN: Final = "version_proc_show"  # only who reads /proc/version calls it


@pytest.fixture(scope="module", params=["bullseye", "bookworm", "trixie", "sid"])
def guest(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SerialGuest, Path]]:
    """A kernel of Debian's that runs, and its vmlinux."""
    needs_tools("qemu-system-aarch64", "cpio")
    vmlinux, directory = needs_kernel(request.param).vmlinux, tmp_path_factory.mktemp(request.param)
    with serial_guest(vmlinux, directory, Machine(memory=512)) as made:
        yield made, vmlinux


_LISTEN: Final = f"""\
cd {TRACING}; echo {_SHOWN} >set_ftrace_filter; echo function >current_tracer
echo 'p:inside {_SHOWN}+8' >kprobe_events; echo 1 >events/kprobes/enable"""
_SWITCH: Final = "echo {0} >/proc/sys/kernel/ftrace_enabled; echo {0} >/sys/kernel/debug/kprobes/enabled"


@pytest.mark.timeout(600)
def test_switches_stop_tracers_and_kprobes(guest: tuple[SerialGuest, Path], tool: Tool) -> None:
    """What they stop stays registered, and nothing calls it; the text is as the audit expects."""
    running, vmlinux = guest
    on, off = _SWITCH.format(1), _SWITCH.format(0)
    for script, wanted in (
        (_LISTEN, ["ftrace_ops", "kprobe"]), (off, []), (on, ["ftrace_ops", "kprobe"]),
        (f"{off}; echo nop >{TRACING}/current_tracer; {on}", ["kprobe"]),
    ):  # fmt: skip
        running.run(script)
        dump = running.dump()
        assert tool("live", "audit", vmlinux, dump, "--json", status=None).json["findings"] == []
        data = listing(vmlinux, dump)
        assert data["not_known"] == []
        assert [listener["kind"] for listener in called(data, _SHOWN)] == wanted
        flags = {listener["kind"]: listener["flags"] for listener in data["listeners"]}
        kinds = {kind for kind in ("ftrace_ops", "kprobe") if kind in flags}
        assert {kind for kind in kinds if "STOPPED" not in flags[kind]} == {*wanted}
