"""``ftrace_call`` and ``ftrace_graph_call`` while ftrace is off, and after: what is set then is not written to text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.audit.made_kernel import NOP, audit, link
from tests.support.cores import SLIDE
from tests.support.elf_edit import ElfEdit
from tests.support.needs import needs_mini_kernel_tools
from tests.support.tool import Tool

_TEXT = """
	.type	ftrace_caller, %function
ftrace_caller: nop
	.type	ftrace_call, %function
	.type	ftrace_graph_call, %function
ftrace_call: bl	ftrace_stub
ftrace_graph_call: nop
	ret
	.type	ftrace_graph_caller, %function
ftrace_graph_caller: ret
	.type	ftrace_stub, %function
ftrace_stub: ret
	.type	traces, %function
traces:	ret
	.rept	64
	nop
	.endr
"""
_VARIABLES = """
	.data
	.balign	8
ftrace_trace_function: .quad 0
saved_ftrace_func: .quad 0
ftrace_enabled: .word 1
ftrace_graph_active: .word 0
ftrace_disabled: .word 0
ftrace_pages_start: .quad 0
page:	.quad 0, 0, 1
record:	.quad 0, 0x80000001
"""


@pytest.mark.parametrize(
    ("calls", "graph", "variables", "wrong"),
    [
        ("stub", "nop", {"function": "stub"}, set()),  # as booted
        ("traces", "nop", {"function": "traces", "saved": "traces"}, set()),
        ("traces", "nop", {"function": "stub", "saved": "stub"}, {"ftrace_call"}),
        # kernel.ftrace_enabled=0
        ("traces", "nop", {"function": "stub", "saved": "traces", "enabled": 0, "active": 1}, set()),
        ("traces", "b", {"function": "stub", "saved": "traces", "enabled": 0, "active": 1}, {"ftrace_graph_call"}),
        ("stub", "nop", {"function": "stub", "saved": "traces", "enabled": 0}, {"ftrace_call"}),
        ("nop", "nop", {"function": "stub", "saved": "stub", "enabled": 0}, {"ftrace_call"}),
        ("data", "nop", {"function": "stub"}, {"ftrace_call"}),  # no function that was traced with before
        # ftrace_kill()
        ("traces", "b", {"function": "stub", "saved": "traces", "enabled": 0, "disabled": 1}, set()),
    ],
)
def test_words_of_the_moment_before(
    calls: str, graph: str, variables: dict[str, str | int], wrong: set[str], *, tmp_path: Path,
    tool: Tool,
) -> None:  # fmt: skip
    assert judged(tmp_path, tool, calls, graph, variables)[0] == wrong


@pytest.mark.parametrize("variables", [{"saved": "stub", "enabled": 0}, {}])
def test_what_was_started_or_ended_meanwhile(variables: dict[str, str | int], tmp_path: Path, tool: Tool) -> None:
    """The second: the last tracer ended while ftrace was off, and then it was enabled again."""
    needs_mini_kernel_tools()
    assert judged(tmp_path, tool, "traces", "nop", variables | {"function": "stub"}) == (set(), 1)
    assert judged(tmp_path, tool, "stub", "nop", variables | {"function": "stub"}) == (set(), 0)


@pytest.mark.parametrize("variables", [{"saved": "stub", "enabled": 0}, {}, {"enabled": 0}])
def test_while_functions_are_traced_ftrace_is_on(variables: dict[str, str | int], tmp_path: Path, tool: Tool) -> None:
    """Turning ftrace off would have disabled their records: somebody else wrote these variables."""
    variables |= {"function": "stub", "records": 1}
    assert judged(tmp_path, tool, "traces", "nop", variables)[0] == {"ftrace_call"}
    assert judged(tmp_path, tool, "stub", "nop", variables)[0] == set()


def judged(
    directory: Path, tool: Tool, calls: str, graph: str, variables: dict[str, str | int]
) -> tuple[set[str], int]:
    """Symbols of what is wrong, and how many words are not decided."""
    needs_mini_kernel_tools()
    out = link(directory, _TEXT, _VARIABLES)
    elf = ElfEdit(out)
    functions = {name: elf.value(symbol) for name, symbol in (("stub", "ftrace_stub"), ("traces", "traces"),
                                                                        ("data", "linux_banner"))}  # fmt: skip
    names = {"function": "ftrace_trace_function", "saved": "saved_ftrace_func"}
    place, graph_place = elf.value("ftrace_call"), elf.value("ftrace_graph_call")
    changes = {place: NOP if calls == "nop" else 0x94000000 | (functions[calls] - place) // 4}
    if graph == "b":
        changes[graph_place] = 0x14000000 | (elf.value("ftrace_graph_caller") - graph_place) // 4
    pointers = {elf.value(names[name]): functions[value] for name, value in variables.items() if isinstance(value, str)}
    if "records" in variables:
        page = elf.value("page")
        pointers |= {elf.value("ftrace_pages_start"): page, page + 8: elf.value("record")}
    for at, pointer in pointers.items():
        changes |= {at: pointer + SLIDE & 0xFFFFFFFF, at + 4: pointer + SLIDE >> 32}
    for name, value in variables.items():
        if isinstance(value, int) and name != "records":
            changes[elf.value("ftrace_graph_active" if name == "active" else f"ftrace_{name}")] = value
    data = audit(tool, out, changes, "--json", status=None).json
    return {finding["symbol"] for finding in data["findings"]}, sum(data["undecided"].values())
