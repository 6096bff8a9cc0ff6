"""What ``plugin/record.c`` has to know of a kernel: where its places are in the Image, and who it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prologue.elf.image import ElfImage
from prologue.elf.notes import gnu_build_id
from prologue.elf.struct_types import struct_types
from prologue.elf.symbols import Symbols
from prologue_bench.errors import BenchError
from prologue_bench.exact.build import build_guest
from prologue_bench.exact.places import image_base, load_address

if TYPE_CHECKING:
    from pathlib import Path

    from prologue.kernel.kernel import Kernel

MARK_BASE: Final = 0x5A5B0000  # where mark.c lies, and no other program
_TABLE: Final = 0x800  # bytes of one vector table (Arm ARM, D1.3.1 "Exception vectors")
# The tables of arch/arm64, 5.5 to 7.2: entry.S (tramp_vectors are several), hyp-stub.S, kvm/hyp/hyp-entry.S and
# kvm/hyp/nvhe/{host,hyp-init}.S.
_VECTORS: Final = (
    "vectors", "tramp_vectors", "__bp_harden_el1_vectors", "__hyp_stub_vectors", "__kvm_hyp_vector",
    "__bp_harden_hyp_vecs", "__kvm_nvhe___kvm_hyp_vector", "__kvm_nvhe___bp_harden_hyp_vecs",
    "__kvm_nvhe___kvm_hyp_host_vector", "__kvm_nvhe___kvm_hyp_init",
)  # fmt: skip
_MAPPED: Final = "start_kernel"  # runs once, where the kernel was moved to


def kernel_numbers(kernel: Kernel, head: bytes) -> dict[str, list[str]]:
    """The plugin's arguments about a kernel, each with its values.

    Args:
        kernel: with a symbol table.
        head: the first 64 bytes of its flat Image.

    Raises:
        BenchError: symbols are missing.

    """
    base = image_base(kernel)
    numbers = {"load": [f"{load_address(head):#x}"], "base": [f"{base:#x}"], "mapped": [offset_of(kernel, _MAPPED)]}
    found = [symbol for name in _VECTORS if (symbol := kernel.symbols.find(name)) is not None]
    if not found:
        raise BenchError(
            f"{kernel.path}: no symbol vectors: exceptions cannot be recognised; use an unstripped vmlinux"
        )
    # Their sizes end with the last instruction.
    sizes = [-(-max(symbol.size, 1) // _TABLE) * _TABLE for symbol in found]
    tables = [f"{symbol.vaddr - base:#x}:{size:#x}" for symbol, size in zip(found, sizes, strict=True)]
    numbers["vectors"] = tables
    if build_id := gnu_build_id(kernel.image):
        numbers["build-id"] = [build_id]
    pid = pid_offset(kernel.path)
    return numbers | ({} if pid is None else {"pid": [f"{pid:#x}"]})


def offset_of(kernel: Kernel, name: str) -> str:
    """Where a function lies in the Image, as the plugin reads it.

    Raises:
        BenchError: there is no such symbol.

    """
    symbol = kernel.symbols.find(name)
    if symbol is None:
        raise BenchError(f"{kernel.path}: no function {name}: name one of its symbol table (nm {kernel.path.name})")
    return f"{symbol.vaddr - image_base(kernel):#x}"


def mark_numbers() -> dict[str, int]:
    """Addresses of the functions of ``mark.c``: arm, begin and end."""
    symbols = Symbols(ElfImage(mark_program()))
    found = {name: symbols.find(f"mark_{name}") for name in ("arm", "begin", "end")}
    return {name: symbol.vaddr for name, symbol in found.items() if symbol is not None}


def mark_program() -> Path:
    """The program that marks."""
    return build_guest("mark.c", MARK_BASE)


def pid_offset(vmlinux: Path) -> int | None:
    """Where ``pid`` lies in ``struct task_struct``; None where the file has neither BTF nor DWARF."""
    every = (types.offset("task_struct.pid") for _, types in struct_types(ElfImage(vmlinux)))
    return next((offset for offset in every if offset is not None), None)
