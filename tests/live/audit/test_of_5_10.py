"""What 5.10 alone writes: the flag of KPTI among its text, and EL2's vectors, slot by slot from templates."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.audit.made_kernel import NOP, audit, link
from tests.support.elf_edit import ElfEdit
from tests.support.needs import needs_mini_kernel_tools
from tests.support.tool import Tool

FLAG = """
	.type	plain, %function
plain:	ret
__idmap_kpti_flag:
	.long	1
	.rept	64
	nop
	.endr
"""


@pytest.mark.parametrize(("value", "status"), [(1, 0), (0, 0), (2, 1)])
def test_the_flag_of_kpti_is_as_linked_or_zero(value: int, status: int, tmp_path: Path, tool: Tool) -> None:
    needs_mini_kernel_tools()
    out = link(tmp_path, FLAG)
    audit(tool, out, {ElfEdit(out).value("__idmap_kpti_flag"): value}, status=status)


VECTORS = """
	.type	plain, %function
plain:	ret
	.balign	0x800
	.type	__bp_harden_hyp_vecs, %function
__bp_harden_hyp_vecs:
	.rept	64
	hint	#16
	.rept	31
	nop
	.endr
	.endr
	.size	__bp_harden_hyp_vecs, . - __bp_harden_hyp_vecs
"""
TEMPLATES = """
	.balign	4
__spectre_bhb_loop_k8:
	.word	0xd503221f, 0xd10043ff, 0xa90007e0
	.size	__spectre_bhb_loop_k8, 12
__spectre_bhb_clearbhb:
	.word	0xd503221f, 0xd50322df
	.size	__spectre_bhb_clearbhb, 8
	.data
	.balign	4
arm64_el2_vector_last_slot: .word -1
"""
LOOP, CLEAR = (0xD503221F, 0xD10043FF, 0xA90007E0), (0xD503221F, 0xD50322DF)


@pytest.mark.parametrize(
    ("last", "slots", "more", "status"),
    [
        (-1, (), {}, 0),
        (1, (LOOP, CLEAR), {}, 0),
        (0, (LOOP, CLEAR), {}, 1),  # the second is not used
        (0, (LOOP,), {0x80 + 4: NOP}, 1),  # one vector of 16
        (0, (LOOP,), {0x80 + 8: 0xD50322DF}, 1),
        (0, (LOOP,), {0x80 + 12: 0xD50322DF}, 1),  # after the template
    ],
)
def test_vectors_against_spectre_have_a_template_in_each_slot(
    last: int, slots: tuple[tuple[int, ...], ...], more: dict[int, int], status: int, *, tmp_path: Path, tool: Tool
) -> None:
    needs_mini_kernel_tools()
    out = link(tmp_path, VECTORS, TEMPLATES)
    vectors = ElfEdit(out).value("__bp_harden_hyp_vecs")
    changes = {ElfEdit(out).value("arm64_el2_vector_last_slot"): last & 0xFFFFFFFF} | {
        vectors + 0x800 * slot + 0x80 * vector + 4 * k: word
        for slot, template in enumerate(slots)
        for vector in range(16)
        for k, word in enumerate(template)
    }
    audit(tool, out, changes | {vectors + at: word for at, word in more.items()}, status=status)
