"""The board's root file system, made of Debian's arm64 packages and our init."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

from elftools.elf.elffile import ELFFile

from prologue_bench.guest import packages
from prologue_bench.guest.initramfs import pack
from prologue_bench.host import programs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SUITE: Final = "bookworm"
# Programs, then the libraries that dropbear and kexec (which is built with Xen's) want.
_PACKAGES: Final = (
    "busybox-static", "dropbear-bin", "kexec-tools", "rt-tests",
    "libc6", "libcrypt1", "libgmp10", "libtomcrypt1", "libtommath1", "zlib1g",
    "libxencall1", "libxendevicemodel1", "libxenevtchn1", "libxenforeignmemory1", "libxengnttab1", "libxenmisc4.17",
    "libxentoolcore1", "libxentoollog1",
)  # fmt: skip
_PROGRAMS: Final = {
    "busybox": "bin/busybox",
    "dropbear": "usr/sbin/dropbear",
    "kexec": "sbin/kexec",
    "hackbench": "usr/bin/hackbench",
}


def pack_board(
    modules: Sequence[Path], public_key: str, scratch: Path, files: Mapping[str, bytes] | None = None
) -> bytes:
    """A newc archive; ``modules`` are loaded in this order, the owner of ``public_key`` may log in as root.

    ``files`` are more of them, all executable: names as in ``more/tool``.
    """
    tree = scratch / "packages"
    for package in packages.download(_SUITE, _PACKAGES):
        subprocess.run([programs.find("dpkg-deb"), "--extract", package, tree], check=True, stdin=subprocess.DEVNULL)
    wanted = {f"bin/{name}": (tree / path).read_bytes() for name, path in _PROGRAMS.items()}
    content = {
        "init": (Path(__file__).parent / "init").read_bytes(),
        "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n",
        "root/.ssh/authorized_keys": public_key.encode(),
        **wanted,
        **_libraries(tree, list(wanted.values())),
        **{f"modules/{k:02d}-{module.name}": module.read_bytes() for k, module in enumerate(modules)},
    }
    content |= files or {}
    named = {str(parent) for name in files or () for parent in PurePath(name).parents} - {"."}
    directories = {"bin", "dev", "etc", "etc/dropbear", "lib", "modules", "proc", "root", "root/.ssh", "sys", "tmp"}
    return pack(content, sorted(directories | named))


def _libraries(tree: Path, programs: list[bytes]) -> dict[str, bytes]:
    """Whatever the programs ask the loader for, and what that asks for."""
    found: dict[str, bytes] = {}
    while programs:
        for name in _needed(programs.pop()):
            if f"lib/{name}" not in found:
                (library, *_) = [path.read_bytes() for path in tree.rglob(name) if path.is_file()]
                found[f"lib/{name}"] = library
                programs.append(library)
    return found


def _needed(program: bytes) -> list[str]:
    elf = ELFFile(io.BytesIO(program))
    dynamic: Any = elf.get_section_by_name(".dynamic")
    if dynamic is None:  # busybox is static
        return []
    names = [tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]
    interpreter: Any = elf.get_section_by_name(".interp")
    if interpreter is not None:
        names.append(Path(interpreter.data().rstrip(b"\0").decode()).name)
    return names
