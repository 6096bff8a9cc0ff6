"""A small arm64 kernel, built from Debian's kernel source with this machine's cross compiler, and cached.

Debian's own kernels are large and of one taste. This one takes minutes to build, is linked by the binutils at hand,
and comes with the Image that kbuild itself makes, so there is something to compare with.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prologue_bench import cache, deb, debian
from prologue_bench.errors import BenchError, MissingToolError
from prologue_bench.progress import shown

if TYPE_CHECKING:
    from prologue_bench.progress import Progress

_SUITE: Final = "bookworm"
_PACKAGE: Final = "linux-source-6.1"
_CROSS: Final = "aarch64-linux-gnu-"

# Commands and files that this configuration's build needs, and the Debian packages that bring them. No headers but the
# C library's: nothing is signed (OpenSSL's) and arm64 has no objtool (libelf's).
_NEEDS: Final = {
    "make": "make",
    "gcc": "gcc",
    "/usr/include/stdio.h": "libc6-dev",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "tar": "tar",
    "xz": "xz-utils",
    f"{_CROSS}gcc": "gcc-aarch64-linux-gnu",
    f"{_CROSS}ld": "binutils-aarch64-linux-gnu",
}

# Everything else is what allnoconfig makes of it.
_CONFIG: Final = """\
CONFIG_LOCALVERSION="-prologue"
CONFIG_SMP=y
CONFIG_MODULES=y
CONFIG_MODULE_UNLOAD=y
CONFIG_JUMP_LABEL=y
CONFIG_KPROBES=y
CONFIG_RELOCATABLE=y
CONFIG_RANDOMIZE_BASE=y
CONFIG_FTRACE=y
CONFIG_FUNCTION_TRACER=y
CONFIG_FUNCTION_GRAPH_TRACER=y
CONFIG_DYNAMIC_FTRACE=y
CONFIG_PRINTK=y
CONFIG_BUG=y
CONFIG_BLK_DEV_INITRD=y
CONFIG_BINFMT_ELF=y
CONFIG_BINFMT_SCRIPT=y
CONFIG_MULTIUSER=y
CONFIG_FUTEX=y
CONFIG_EPOLL=y
CONFIG_PROC_FS=y
CONFIG_SYSFS=y
CONFIG_DEVTMPFS=y
CONFIG_SHMEM=y
CONFIG_TMPFS=y
CONFIG_NET=y
CONFIG_UNIX=y
CONFIG_TTY=y
CONFIG_SERIAL_AMBA_PL011=y
CONFIG_SERIAL_AMBA_PL011_CONSOLE=y
"""

# Half of the source by size; kconfig reads the Kconfig files of all of it, so those stay.
_UNUSED: Final = (
    "*/Documentation/*/*",
    "*/tools/testing",
    "*/tools/perf",
    "*/arch/*.dts*",
    *(f"*/{directory}/*.[ch]" for directory in ("drivers/gpu", "drivers/media", "drivers/staging", "sound")),
    *(f"*/drivers/net/{directory}/*.[ch]" for directory in ("ethernet", "wireless")),
)

_STEPS: Final = 1650  # lines that make prints; only the progress bar cares


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """A kernel that was built here. Its files are the cache's: treat them as read-only."""

    release: str  # what `uname -r` says
    vmlinux: Path
    image: Path | None  # kbuild's own flat Image, if it was asked for one
    config: Path


def build_kernel(progress: Progress | None = None) -> BuiltKernel:
    """Return the small kernel, building it (2-3 minutes on two cores, 900 MB for that while) if it is not cached.

    Raises:
        MissingToolError: a tool of the build is missing.
        UnreachableError: the source (140 MB) can neither be fetched nor found in the cache.
        BenchError: the build failed.

    """
    _check_tools()
    with shown(progress) as report:
        (source,) = debian.download(_SUITE, [_PACKAGE], report)
        directory = cache.produce(f"built/{_key(source)}", lambda path: _make(path, source, report))
    release = (directory / "release").read_text(encoding="utf-8").strip()
    return BuiltKernel(release, directory / "vmlinux", directory / "Image", directory / "config")


def _check_tools() -> None:
    """Name all that is missing at once: each install may mean a question to somebody else."""
    missing = {need: package for need, package in _NEEDS.items() if not (shutil.which(need) or Path(need).is_file())}
    if missing:
        raise MissingToolError(
            f"to build a kernel, {', '.join(missing)} must be there (Debian packages {', '.join(missing.values())})"
        )


def _key(source: Path) -> str:
    """Name all that decides what is built: the source's version, this file with its configuration, the tools."""
    # The host's compiler is not among them: what it compiles only helps, and nothing of it ends up in the kernel.
    tools = "".join(_run([f"{_CROSS}{name}", "--version"]) for name in ("gcc", "ld"))
    digest = hashlib.sha256(Path(__file__).read_bytes() + tools.encode()).hexdigest()[:16]
    return f"{source.stem}-{digest}"


def _make(directory: Path, package: Path, progress: Progress) -> None:
    # Beside `directory`, where the cache clears up after us however this ends.
    tree = _unpack(package, directory.with_name("source"), progress)
    fragment = tree / "prologue.config"
    fragment.write_text(_CONFIG, encoding="utf-8")
    _kbuild(tree, "allnoconfig", f"KCONFIG_ALLCONFIG={fragment}", progress=progress)
    _check_config((tree / ".config").read_text(encoding="utf-8"))
    _kbuild(tree, f"-j{len(os.sched_getaffinity(0))}", "vmlinux", "Image", progress=progress)
    directory.mkdir()
    for made, name in (
        ("vmlinux", "vmlinux"),
        ("arch/arm64/boot/Image", "Image"),
        (".config", "config"),
        ("include/config/kernel.release", "release"),
    ):
        (tree / made).rename(directory / name)
        (directory / name).chmod(0o444)


def _unpack(package: Path, tree: Path, progress: Progress) -> Path:
    archive = tree.with_suffix(".tar.xz")
    if not deb.extract_first(package, lambda name: name.endswith(f"{_PACKAGE}.tar.xz"), archive, lambda _: None):
        raise BenchError(f"{package.name} has no {_PACKAGE}.tar.xz")
    progress(f"unpacking {_PACKAGE}", 0)
    tree.mkdir()
    excludes = [f"--exclude={pattern}" for pattern in _UNUSED]
    _run(["tar", "-x", "-J", "--strip-components=1", *excludes, "-f", str(archive)], tree)
    archive.unlink()
    return tree


def _check_config(config: str) -> None:
    """An option that kconfig dropped (renamed, or its dependencies changed) would only be missed at boot."""
    lost = sorted(set(_CONFIG.splitlines()) - set(config.splitlines()))
    if lost:
        raise BenchError(f"{_PACKAGE}'s kconfig did not take {', '.join(lost)}")


def _kbuild(tree: Path, *arguments: str, progress: Progress) -> None:
    """Run make in the source; only what is said here reaches it, not what a make above us put into the environment."""
    environment = {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C",
        # Who built it, where and when would otherwise be part of the kernel.
        "KBUILD_BUILD_TIMESTAMP": "@0",
        "KBUILD_BUILD_USER": "prologue",
        "KBUILD_BUILD_HOST": "prologue",
    }
    tail: deque[str] = deque(maxlen=5)
    with subprocess.Popen(
        ["make", "ARCH=arm64", f"CROSS_COMPILE={_CROSS}", *arguments],
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        for count, line in enumerate(process.stdout):
            tail.append(line.strip())
            progress(f"building {_PACKAGE}", min(100.0, 100.0 * count / _STEPS))
    if process.returncode:
        raise BenchError(f"make {' '.join(arguments)} failed: {' | '.join(tail)}")


def _run(command: list[str], directory: Path | None = None) -> str:
    done = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{command[0]} failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return done.stdout
