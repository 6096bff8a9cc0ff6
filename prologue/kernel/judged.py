"""Opens a vmlinux that rules will judge: with the symbols that it was linked with, or not at all."""

from __future__ import annotations

from prologue.elf.image import ElfImage
from prologue.kernel.kernel import Kernel
from prologue.kernel.required import require_symbols
from prologue.kernel.restored import restore_symbols


def open_judged(image: ElfImage, *, by_name: bool = False) -> Kernel:
    """Open a kernel with its stripped symbols restored (see ``restore_symbols``), or refuse it if they cannot be.

    The build step does not restore any: its rules need few symbols, and it has to be quick.

    Raises:
        InputError: not an arm64 vmlinux with symbols, or stripped in part.

    """
    kernel = Kernel(image)
    kernel.restored = restore_symbols(kernel, by_name=by_name)
    require_symbols(kernel)
    return kernel
