"""Listeners of one function of a running kernel: a listing has their order, and knows which are switched off."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from prologue.cli.main import main
from prologue_bench.guest.vm import Machine
from tests.real_kernels.native import MACHINES, RECIPES
from tests.support.live_guest import TRACING
from tests.support.needs import needs_built_kernel, needs_kernel, needs_tools
from tests.support.serial_guest import SerialGuest, serial_guest
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.builds, pytest.mark.qemu, pytest.mark.extended]

_READ: Final = "vfs_read"
# BTI, two slots, and a place after them; of the slots, ftrace has the second.
_EVENTS: Final = {"first": "p", "slot": "p+4", "after": "p+12", "end": "r", "later_end": "r"}


@pytest.mark.timeout(1200)
def test_the_order_is_that_of_the_trace(tmp_path: Path) -> None:
    needs_tools("qemu-system-aarch64", "cpio")
    vmlinux = needs_built_kernel(RECIPES["6.12"]).vmlinux
    with serial_guest(vmlinux, tmp_path, MACHINES["6.12"]) as guest:
        lines = [f"{form[0]}:{name} {_READ}{form[1:]}" for name, form in _EVENTS.items()]
        guest.run("; ".join(f"echo '{line}' >>{TRACING}/kprobe_events" for line in lines))
        guest.run(f"echo 1 >{TRACING}/events/kprobes/enable; echo {_READ} >{TRACING}/set_ftrace_filter")
        call = "dd if=/proc/version bs=9 count=1 2>/dev/null"
        guest.run(f"echo function >{TRACING}/current_tracer; {call}; echo 0 >{TRACING}/tracing_on")
        trace = guest.run(f"grep ' dd-' {TRACING}/trace")
        listed = called(listing(vmlinux, guest.dump()), _READ)
    seen = re.findall(r"\d: (\w+)", trace)  # an event, or the function for its tracer
    names = [listener["name"].partition(":")[2] for listener in listed]
    assert len(names) == len(_EVENTS) + 1
    assert [name or _READ for name in names] == seen[: len(names)]


def listing(vmlinux: Path, dump: Path) -> dict[str, Any]:
    """What is attached."""
    out = dump.with_name("hooks.json")
    assert main(["live", "hooks", str(vmlinux), str(dump), "--json", "-o", str(out), "-q"]) == 0
    data: dict[str, Any] = json.loads(out.read_text())
    return data


def called(data: dict[str, Any], function: str) -> list[dict[str, Any]]:
    """What is called at a function, in order."""
    groups = [each["called"] for each in data["functions"] if each["function"] == function]
    return [data["listeners"][each["listener"]] for group in groups for each in group]


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


@pytest.fixture(scope="module", params=["bullseye", "bookworm", "trixie", "sid"])
def guest(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SerialGuest, Path]]:
    """A kernel of Debian's that runs, and its vmlinux."""
    needs_tools("qemu-system-aarch64", "cpio")
    vmlinux, directory = needs_kernel(request.param).vmlinux, tmp_path_factory.mktemp(request.param)
    with serial_guest(vmlinux, directory, Machine(memory=512)) as made:
        yield made, vmlinux


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("guest", "last"), [("bookworm", "again"), ("trixie", "again"), ("sid", "fprobe")], indirect=["guest"]
)
def test_what_was_registered_last_is_called_first(guest: tuple[SerialGuest, Path], last: str) -> None:
    """Events have numbers; between two of them is that of the function graph, of which the text gives none."""
    running, vmlinux = guest
    for order in (("function", "graph", last), (last, "graph", "function")):
        running.run(f"cd {TRACING}; {'; '.join(map(registered, order))}; read line </proc/version")
        traces = [f"instances/{name}/trace" for name in reversed(order) if name != "graph"]
        numbers = [int(word) for word in re.findall(r"(\d+): ", running.run(f"cd {TRACING}; cat {' '.join(traces)}"))]
        assert [number - numbers[0] for number in numbers] == [0, 2]
        wanted = [symbol for name in reversed(order) for symbol in _CALLBACKS.get(name, _CALLBACKS["function"])]
        listed = called(listing(vmlinux, running.dump()), _SHOWN)
        assert [listener["calls"][0]["symbol"] for listener in listed] == wanted
        running.run(f"cd {TRACING}; {_OFF}")


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
