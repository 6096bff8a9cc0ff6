"""The flag of KPTI that 5.10 has among its text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.audit.made_kernel import audit, link
from tests.support.elf_edit import ElfEdit
from tests.support.needs import needs_mini_kernel_tools
from tests.support.tool import Tool

_TEXT = """
	.type	plain, %function
plain:	ret
__idmap_kpti_flag:
	.long	1
	.rept	64
	nop
	.endr
"""


@pytest.mark.parametrize(("value", "status"), [(1, 0), (0, 0), (2, 1)])
def test_it_is_as_linked_or_zero(value: int, status: int, tmp_path: Path, tool: Tool) -> None:
    needs_mini_kernel_tools()
    out = link(tmp_path, _TEXT)
    audit(tool, out, {ElfEdit(out).value("__idmap_kpti_flag"): value}, status=status)
