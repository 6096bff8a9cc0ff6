"""A machine's kernel that is made up: what its kcore has where, and what its shell says."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from elftools.elf.elffile import ELFFile

PAGE = 4096
IMAGE = 0xFFFFCAF3C8800000
MODULES = IMAGE - 0x1000000
SLIDE = 0x4AF348800000
ZERO = bytes(PAGE)


def page(letter: str) -> bytes:
    return letter.encode() * PAGE


# From MODULES on: text of three pages, unmapped, data, unmapped, what is another's, unmapped, a BPF program.
AREA = page("t") + page("u") + page("v") + ZERO + page("d") + ZERO + page("x") + ZERO + page("b") + ZERO * 20
SAID = f"""cat <<'END'
==== release
6.12.107
==== boot_id
dac90a52
==== kptr_restrict
0
==== modules
loop {4 * PAGE} 0 - Live {MODULES:#x}
small 64 0 - Live {MODULES + 4 * PAGE + 2048:#x}
==== symbols
{IMAGE:x} T _text
{IMAGE + PAGE:x} T _stext
{IMAGE + 3 * PAGE:x} T _etext
{IMAGE + 4 * PAGE:x} T __init_begin
{IMAGE + 5 * PAGE:x} D __init_end
{IMAGE + 6 * PAGE:x} B _end
{MODULES + 8:x} t lo_open	[loop]
{MODULES + 8 * PAGE + 64:x} t bpf_prog_6deef7357e7b4530	[bpf]
==== sections
/sys/module/loop/sections/.text:{MODULES:#x}
/sys/module/loop/sections/.data:{MODULES + 4 * PAGE:#x}
/sys/module/small/sections/.init.text:{MODULES + PAGE:#x}
/sys/module/loop/sections/.init.text:{MODULES + 5 * PAGE:#x}
==== kprobes
==== end
END
"""

# Where lists begin, in the page after init: its two words are ftrace_ops_list and ftrace_pages_start.
HEAP = 0xFFFF000003000000
OPS, RECORDS_PAGE, RECORDS, END = HEAP + 0x100, HEAP + 0x800, HEAP + PAGE, IMAGE + 5 * PAGE + 64
HEADS = f"""{IMAGE + 5 * PAGE:x} d ftrace_ops_list
{IMAGE + 5 * PAGE + 8:x} d ftrace_pages_start
{END:x} d ftrace_list_end
{IMAGE + 5 * PAGE + 0x200:x} b kprobe_table
==== sections"""


def loads(path: Path) -> list[tuple[int, int, int]]:
    """Address, offset and size of each segment, as pyelftools reads them; offsets must fit the alignment."""
    with path.open("rb") as stream:
        found = [s.header for s in cast("Any", ELFFile(stream)).iter_segments() if s["p_type"] == "PT_LOAD"]
    assert all(h["p_vaddr"] % h["p_align"] == h["p_offset"] % h["p_align"] for h in found)
    return [(h["p_vaddr"], h["p_offset"], h["p_filesz"]) for h in found]
