"""Listeners of one function of a running kernel: a listing has the order in which its trace has them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from prologue.cli.main import main
from prologue_bench.guest.vm import Machine
from tests.real_kernels.native import MACHINES, RECIPES
from tests.support.live_guest import TRACING
from tests.support.needs import needs_built_kernel, needs_kernel, needs_tools
from tests.support.serial_guest import SerialGuest, serial_guest

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
        listed = called(vmlinux, guest, _READ)
    seen = re.findall(r"\d: (\w+)", trace)  # an event, or the function for its tracer
    names = [listener["name"].partition(":")[2] for listener in listed]
    assert len(names) == len(_EVENTS) + 1
    assert [name or _READ for name in names] == seen[: len(names)]


def called(vmlinux: Path, guest: SerialGuest, function: str) -> list[dict[str, Any]]:
    """What a listing of a dump says is called at a function, in order."""
    out = guest.directory / "hooks.json"
    assert main(["live", "hooks", str(vmlinux), str(guest.dump()), "--json", "-o", str(out), "-q"]) == 0
    data = json.loads(out.read_text())
    (group,) = (each for each in data["functions"] if each["function"] == function)
    return [data["listeners"][each["listener"]] for each in group["called"]]


_SHOWN: Final = "version_proc_show"  # only who reads /proc/version calls it
_CALLBACKS: Final = {
    "function": ["function_trace_call"],
    "graph": ["ftrace_graph_func", "trace_graph_entry"],
    "fprobe": ["fprobe_ftrace_entry", "fentry_dispatcher"],
}


def registered(name: str) -> str:
    """A script that has one of them listen; each has a buffer of its own, and all have one counter of events."""
    own = "." if name == "graph" else f"instances/{name}"  # in 6.1 no instance has the graph
    tracer = (
        f"echo {_SHOWN} >{own}/set_ftrace_filter; echo function{'_graph' * (name == 'graph')} >{own}/current_tracer"
    )
    event = f"echo 'f:first {_SHOWN}' >dynamic_events; echo 1 >{own}/events/fprobes/enable"
    return f"mkdir -p {own}; echo counter >{own}/trace_clock; {event if name == 'fprobe' else tracer}"


_OFF: Final = """\
for own in instances/* .; do echo nop >$own/current_tracer; echo 0 >$own/events/enable; done
rmdir instances/*; echo >dynamic_events"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("suite", "last"), [("bookworm", "again"), ("trixie", "again"), ("sid", "fprobe")])
def test_what_was_registered_last_is_called_first(suite: str, last: str, tmp_path: Path) -> None:
    """Events have numbers; between two of them is that of the function graph, of which the text gives none."""
    needs_tools("qemu-system-aarch64", "cpio")
    vmlinux = needs_kernel(suite).vmlinux
    assert main(["image", str(vmlinux), "-o", str(tmp_path / "Image")]) == 0
    with serial_guest(tmp_path / "Image", tmp_path, Machine(memory=512)) as guest:
        for order in (("function", "graph", last), (last, "graph", "function")):
            guest.run(f"cd {TRACING}; {'; '.join(map(registered, order))}; read line </proc/version")
            traces = [f"instances/{name}/trace" for name in reversed(order) if name != "graph"]
            numbers = [int(word) for word in re.findall(r"(\d+): ", guest.run(f"cd {TRACING}; cat {' '.join(traces)}"))]
            assert [number - numbers[0] for number in numbers] == [0, 2]
            listed = called(vmlinux, guest, _SHOWN)
            wanted = [symbol for name in reversed(order) for symbol in _CALLBACKS.get(name, _CALLBACKS["function"])]
            assert [listener["calls"][0]["symbol"] for listener in listed] == wanted
            guest.run(f"cd {TRACING}; {_OFF}")
