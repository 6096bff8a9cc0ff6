"""The root file system of a recording's guest: programs, marks, and the script that runs one command between them."""

from __future__ import annotations

import shlex
from importlib.resources import files
from typing import TYPE_CHECKING

from prologue_bench.guest.initramfs import fetch_programs, pack, plain_modules
from prologue_bench.trace.places import mark_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


def pack_guest(
    command: Sequence[str], setup: str = "", more: Mapping[str, bytes] | None = None, modules: Sequence[Path] = ()
) -> bytes:
    """Make the archive.

    Args:
        command: program and arguments; a name that is no path is looked for in ``/bin``.
        setup: shell script that runs before.
        more: other files, by path inside.
        modules: ``.ko`` files, compressed or not, that are loaded first, in this order.

    Raises:
        InputError: a module's compressed data are damaged.
        BenchError: busybox and hackbench can neither be fetched nor found in the cache.

    """
    argv = [command[0] if "/" in command[0] else f"/bin/{command[0]}", *command[1:]]
    loaded = plain_modules(modules)
    content = {
        "init": files("prologue_bench.trace").joinpath("init").read_bytes(),
        "bin/mark": mark_program().read_bytes(),
        "setup": setup_script(loaded, setup).encode(),
        "command": shlex.join(argv).encode(),
        **fetch_programs()[0],
        **loaded,
        **(more or {}),
    }
    return pack(content, ("bin", "lib", "modules", "proc", "sys", "dev", "tmp"))


def setup_script(modules: Iterable[str], script: str) -> str:
    """Write the script that init sources: it loads modules, by their paths inside, and goes on if all were loaded."""
    loads = "".join(f"insmod {shlex.quote(f'/{name}')} || return 1\n" for name in modules)
    return f"{loads}{script or ':'}\n"
