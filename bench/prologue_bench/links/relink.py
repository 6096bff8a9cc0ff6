"""Links a build again, by its own ``scripts/link-vmlinux.sh``, and writes nothing into its tree.

The script writes into its working directory only (6.1 to 7.2), except that it lets make compile
``init/version-timestamp.o``, which the build has. So it runs in a directory of symbolic links to the tree's entries.
It gets the environment that the source's make gives it. That make must not go into the build: the Makefile of a build
with ``O=`` (7.2) names the build's directory, or the one that it was copied from. Nor may it bring the configuration up
to date, which it would do through the links.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from prologue_bench.errors import BenchError
from prologue_bench.host.child import end_with_parent
from prologue_bench.host.events import tail
from prologue_bench.links.tree import BuildTree

SCRATCH: Final = ".linking-"
_LDS: Final = "prologue.lds"
_GOAL: Final = "prologue-environment"
# Outputs of a link. A new one must not be written through a symbolic link into the tree.
_OUTPUTS: Final = ("vmlinux", "vmlinux.unstripped", "vmlinux.map", "System.map", ".version")
_OUTPUT_PREFIXES: Final = (".tmp_", ".btf.", ".vmlinux.d", ".vmlinux.unstripped.d")
# Of our caller's environment make gets these only: it takes KBUILD_OUTPUT, MAKEFLAGS and the like from there, too.
_PASSED_ON: Final = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
# Kbuild's own switch for goals that take a configuration as it is; without the second it would leave out the compiler.
_AS_CONFIGURED: Final = ("may-sync-config=", "need-compiler=1")


@contextmanager
def relinking(tree: BuildTree, directory: Path) -> Iterator[Callable[[str], Path]]:
    """Yield a function that links with a linker script and returns the vmlinux, in ``directory`` until the next link.

    Raises:
        BenchError: make or the link failed, with the end of what it printed.

    """
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=directory.resolve()) as name:
        out = _mirror(tree, Path(name))
        environment = _environment(tree, out)
        script = Path(tree.source, "scripts/link-vmlinux.sh")
        # 6.15 and newer take the name of the output.
        command = [environment.get("CONFIG_SHELL", "sh"), str(script), *tree.command, "vmlinux"]

        def link(lds: str) -> Path:
            (out / _LDS).write_text(lds, encoding="utf-8", errors="surrogateescape")
            _run(command, out, environment, tree)
            return out / "vmlinux"

        yield link


def _mirror(tree: BuildTree, root: Path) -> Path:
    """Make the directory that the link runs in; relative names of the build lead to the same files from there."""
    out = tree.out.resolve()
    if tree.source == "..":
        for entry in out.parent.iterdir():
            if entry != out:
                (root / entry.name).symlink_to(entry)
    mirror = root / out.name
    mirror.mkdir()
    for entry in out.iterdir():
        if entry.name not in _OUTPUTS and not entry.name.startswith(_OUTPUT_PREFIXES):
            (mirror / entry.name).symlink_to(entry)
    return mirror


def _environment(tree: BuildTree, out: Path) -> dict[str, str]:
    """Return the environment that the source's make gives to the link, with the script that is to be written."""
    dump = out.parent / "environment"
    # The outer make of a build with O= does not know the variable: the goal reaches the inner one, too.
    rule = f"{_GOAL}: ; $(if $(KBUILD_LDS),env -0 >{shlex.quote(str(dump))},@:)"
    variables = [f"{name}={value}" for name, value in tree.variables.items() if name != "srctree"]
    makefile = ["-f", str(Path(tree.source, "Makefile")), f"KBUILD_OUTPUT={out}", *_AS_CONFIGURED]
    command = ["make", "-s", "--no-print-directory", *makefile, f"--eval={rule}", *variables, _GOAL]
    _run(command, out, {name: os.environ[name] for name in _PASSED_ON if name in os.environ}, tree)
    if not dump.exists():
        raise BenchError(f"{tree.out}: its make does not say how it links (no KBUILD_LDS)")
    pairs = (pair.partition("=") for pair in dump.read_text(errors="surrogateescape").split("\0") if pair)
    environment = {name: value for name, _, value in pairs if name not in ("MAKEFLAGS", "MFLAGS")}
    return {**environment, "KBUILD_LDS": _LDS, "MAKE": "true"}


def _run(command: list[str], out: Path, environment: dict[str, str], tree: BuildTree) -> None:
    done = subprocess.run(
        command, cwd=out, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", check=False, preexec_fn=end_with_parent,
    )  # fmt: skip
    if done.returncode:
        end = tail(done.stdout.splitlines(), 8)
        program = "make" if command[0] == "make" else command[1]
        raise BenchError(f"{tree.out}: {program} failed:\n  {end}")
