"""``python -m tests.kernels.bisect RELEASE``: builds and boots a tree after each patch of the series.

    python -m tests.kernels.bisect 7.2 -o bisect/
    python -m tests.kernels.bisect 6.12 --toolchain llvm-19 -o bisect/
    python -m tests.kernels.bisect 6.18 --tree linux-6.18.35 -o bisect/

A series must be bisectable: whoever looks for a fault of another patch gets any of these trees. Each boot does what a
soak's does, with two tracers at once, one of them in an instance. From the patch on that gives the option its prompt,
the kernel is booted processed, too. Trees and logs stay in the directory. Exit status 1 if a boot was not well.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from prologue.errors import PrologueError
from prologue.kernel_tree.diff import FileChange
from prologue.kernel_tree.patches import Patch, all_series, default_mode, load_patch
from prologue.kernel_tree.source import OPTION, SORTTABLE
from prologue_bench.errors import BenchError
from prologue_bench.guest import packages
from prologue_bench.guest.vm import Machine
from prologue_bench.host.events import tail
from prologue_bench.host.progress import shown
from tests.kernels.recipes import KERNELS
from tests.kernels.soak import JOBS, Boot, real_boot, tool
from tests.support.debian.kbuild import NOT_BUILT, Recipe, apply_patch, make, options_of_release
from tests.support.debian.source import link_source

SUITES: Final = {kernel.recipe.source.removeprefix("linux-source-"): kernel.recipe.suite for kernel in KERNELS.values()}
_WARNINGS: Final = ("warning:", "WARNING:")
_TIMEOUT: Final = 300.0


def bisect(recipe: Recipe, release: str, directory: Path, source: Path | None = None) -> Iterator[str]:
    """Build and boot after each patch: a line for each boot, which ends with ``well`` if it was.

    ``source`` is a tree of a release of which Debian has none.
    """
    tree = directory / "tree"
    if source is None:
        with shown(None) as progress:
            (deb,) = packages.download(recipe.suite, [recipe.source], progress)
        link_source(deb, tree)
    else:
        shutil.copytree(source, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    (tree / "out").mkdir()
    options = options_of_release(recipe.set_options, tree)
    (tree / "out" / "fragment").write_text("".join(f"{option}\n" for option in options), encoding="utf-8")
    for number, patch in enumerate(load_patch(release, mode=default_mode(release)).patches, 1):
        _apply(patch, tree)
        name = f"{number} {patch.step}"
        if all(change.path.startswith(NOT_BUILT) for change in patch.changes):
            yield f"{name}: nothing of it is built: well"
            continue
        begin = time.monotonic()
        warnings = _build(tree, recipe)
        yield f"{name}: built in {time.monotonic() - begin:.0f} s, {len(warnings)} warnings: {_ending(warnings)}"
        config = (tree / "out" / ".config").read_text(encoding="utf-8")
        for form, vmlinux in _forms(tree / "out", config):
            logs = directory / f"{number}-{patch.step}-{form}"
            logs.mkdir()
            problem = _boots(vmlinux, logs)(logs / "boot.log", _TIMEOUT)
            yield f"{name}: {form}: {problem or 'well'}"


def _apply(patch: Patch, tree: Path) -> None:
    """Apply a patch; a header that only gets new lines keeps its time.

    What includes it without being changed itself uses none of them: kbuild would compile the whole kernel again, for
    the same objects.
    """
    headers = [change for change in patch.changes if change.path.endswith(".h") and not change.creates]
    times = {tree / change.path: (tree / change.path).stat() for change in headers if not _takes_lines(change)}
    apply_patch(patch.diff, tree)
    for path, old in times.items():
        os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))


def _takes_lines(change: FileChange) -> bool:
    return any(line.startswith(b"-") for hunk in change.hunks for line in hunk.text.splitlines())


def _build(tree: Path, recipe: Recipe) -> list[str]:
    """Build, with the options that the tree has by now; the warnings of the build."""
    said = []
    fragment = tree / "out" / "fragment"
    for arguments in (
        ("-s", f"KCONFIG_ALLCONFIG={fragment}", "allnoconfig"),
        (f"-j{len(os.sched_getaffinity(0))}", "PROLOGUE=true", "vmlinux", "modules"),
    ):
        done = make(tree, recipe, *arguments)
        lines = done.stdout.splitlines()
        if done.returncode:
            raise BenchError(f"make {' '.join(arguments)} failed in {tree}:\n  " + tail(lines, 8))
        said += [line for line in lines if any(word in line for word in _WARNINGS)]
    return said


def _forms(out: Path, config: str) -> Iterator[tuple[str, Path]]:
    """The forms in which the kernel is booted; sorttable's own output, once there is one."""
    if f"CONFIG_{OPTION}=y" in config and (out.parent / SORTTABLE).exists():
        yield "by-sorttable", out / "vmlinux"
        return
    yield "linked", out / "vmlinux"
    if f"CONFIG_{OPTION}=y" in config:
        processed = out / "vmlinux.processed"
        processed.unlink(missing_ok=True)
        tool("patch", str(out / "vmlinux"), "-o", str(processed), "-q")
        yield "processed", processed


def _boots(vmlinux: Path, directory: Path) -> Boot:
    return real_boot(vmlinux, Machine(), 1, directory, jobs=(*JOBS, "instance"))


def _ending(warnings: list[str]) -> str:
    return "; ".join(warnings[:3]) or "well"


def main() -> int:
    """Print a line for each boot; exit with 1 if one was not well."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.kernels.bisect", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("release", choices=all_series())
    parser.add_argument("--toolchain", choices=("gcc", "llvm-19"), default="gcc")
    parser.add_argument("--tree", type=Path, help="the sources, if Debian has none of that release")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="a new directory")
    args = parser.parse_args()
    if args.tree is None and args.release not in SUITES:
        parser.error(f"Debian has no source of {args.release}: name a --tree")
    recipe = Recipe(
        suite=SUITES.get(args.release, ""),
        source=f"linux-source-{args.release}",
        toolchain=args.toolchain,
        options=("small", "minimal", "native"),
    )
    bad = 0
    try:
        args.output.mkdir(parents=True)
        for line in bisect(recipe, args.release, args.output, args.tree):
            print(line, flush=True)
            bad += not line.endswith(": well")
    except (PrologueError, FileExistsError) as error:
        print(f"bisect: {error}", file=sys.stderr)
        return 2
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
