"""Separate debug files: the headers of a vmlinux or a module, its symbols and DWARF, and none of its bytes.

``objcopy --only-keep-debug`` and ``eu-strip -f`` turn every allocated section into SHT_NOBITS, notes excepted. Read as
a kernel such a file has no text and no tables, which looks like a kernel without ftrace.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prologue.errors import InputError

if TYPE_CHECKING:
    from prologue.elf.sections import Section

# Sections that are never NOBITS if they are not empty: code and tables that the tool reads by name.
_CODE: Final = (".text", ".init.text", ".exit.text", ".noinstr.text", ".hyp.text", ".hyp.idmap.text", ".rodata.text")
_DATA: Final = (".rodata", ".init.data", ".data", ".altinstructions", ".modinfo", ".gnu.linkonce.this_module")
_TABLES: Final = ("__ex_table", "__bug_table", "__jump_table", "__patchable_function_entries")
_ALWAYS_BYTES: Final = frozenset((*_CODE, *_DATA, *_TABLES, ".rela.dyn", ".relr.dyn"))
# Placeholders of modules, which the module loader sizes itself and makes NOBITS (arch/arm64/kernel/module-plts.c, 6.1).
_PLACEHOLDERS: Final = frozenset({".plt", ".init.plt", ".text.ftrace_trampoline", ".init.text.ftrace_trampoline"})


def require_bytes(sections: Iterable[Section], path: Path) -> None:
    """Refuse a file whose code or tables have no bytes.

    Raises:
        InputError: a separate debug file, or a file whose sections were emptied one by one.

    """
    loaded = [s for s in sections if s.allocated and s.size and s.type not in ("SHT_NULL", "SHT_NOTE")]
    loaded = [s for s in loaded if s.name not in _PLACEHOLDERS]
    empty = [s for s in loaded if s.type == "SHT_NOBITS"]
    wrong = [s for s in empty if s.executable or s.name in _ALWAYS_BYTES]
    if wrong and len(empty) == len(loaded):
        raise InputError(
            "a separate debug file, its sections have no bytes: give the file that it was made from", path=path
        )
    if wrong:
        raise InputError(
            f"section {wrong[0].name} has no bytes (NOBITS), as in a separate debug file: "
            "give the file as it was linked",
            path=path,
        )
