"""What is in use and not what its users see, on a small kernel: BPF programs, livepatches, handlers that were freed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.hooks.hooked import Values, hooks, of_kind, saved
from tests.support.elf_edit import ElfEdit
from tests.support.tool import Tool

ON_EVENT: Values = {"event+8": "attached"}
REPLACES = "the livepatch good replaces it, and is not in /sys/kernel/livepatch"
OFF_THE_LIST: Values = {"klp_patches": "klp_patches"}


def findings(core: Path, vmlinux: Path, tool: Tool) -> list[tuple[str, str, str]]:
    data = tool("live", "audit", vmlinux, core, "--select", "PL509,PL510", "--json", status=None).json
    return [(one["code"], one["symbol"], one["message"]) for one in data["findings"]]


def test_a_program_that_is_not_listed(vmlinux: Path, tool: Tool) -> None:
    ((code, symbol, message),) = findings(saved(vmlinux, ON_EVENT), vmlinux, tool)
    assert (code, symbol) == ("PL509", "vfs_write")
    assert message.startswith("BPF program attached at ")
    assert message.endswith("prog_idr, which bpftool shows, lacks it")


@pytest.mark.parametrize("more", [
    {"prog_idr+16": "attached_program"},  # listed
    {"attached_program+16": "on_call"},  # the kernel's own, for the programs of a cgroup
    {"attached+24": "dummy_bpf_prog"},  # in the place of a program that could not be taken off
])  # fmt: skip
def test_a_program_that_need_not_be_listed(vmlinux: Path, more: Values, tool: Tool) -> None:
    assert findings(saved(vmlinux, ON_EVENT | more), vmlinux, tool) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"patch+24": 0}, [("PL510", "replaced", REPLACES)]),
        (OFF_THE_LIST, [("PL510", "replaced", "a livepatch that is not in klp_patches replaces it by on_call")]),
        ({"patch+24": 0, "patched_function+24": 0}, []),  # of a module that is not loaded
        ({"patch+24": 0, "klp_mutex": 0xFFFF_0000_0300_0000}, []),
        (OFF_THE_LIST | {"klp_ops": "klp_ops"}, []),  # of neither list: it is over
    ],
)
def test_livepatches(vmlinux: Path, changes: Values, expected: list[tuple[str, str, str]], tool: Tool) -> None:
    assert findings(saved(vmlinux, changes), vmlinux, tool) == expected


def test_a_replacement_that_is_not_listed_is_a_listener(vmlinux: Path, tool: Tool) -> None:
    (patch,) = of_kind(hooks(vmlinux, OFF_THE_LIST, tool), "livepatch")
    assert (patch["functions"], patch["flags"]) == (["replaced"], ["NOT LISTED"])


def test_a_callback_in_the_middle_of_a_function(vmlinux: Path, tool: Tool) -> None:
    """As one that was freed, whose memory something else got."""
    ((code, symbol, message),) = findings(saved(vmlinux, {"hook": "on_call+4"}), vmlinux, tool)
    assert (code, symbol) == ("PL509", "vfs_read")
    assert message.endswith("its callback is on_call+0x4, inside of a function")


def test_code_after_the_text_in_its_last_page(vmlinux: Path, tool: Tool) -> None:
    """No section has it, and the page is the kernel's: what a linker leaves there is zeros."""
    elf = ElfEdit(vmlinux)
    text = elf.elf.get_section_by_name(".text")
    end = text["sh_addr"] + text["sh_size"]
    core = saved(vmlinux, {f"_etext+{end + 8 - elf.value('_etext')}": 0xD65F03C0})
    (finding,) = tool("live", "audit", vmlinux, core, "--select", "PL511", "--json", status=None).json["findings"]
    size = -end % 4096
    assert finding["message"] == f"{size:,} bytes at {end:#x}, after the kernel's text in its last page, are not zeros"
