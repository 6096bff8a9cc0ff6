"""Makes a directory of links: each whole or not there, all of one build, no two alike."""

from __future__ import annotations

import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

from prologue.kernel.kernel import Kernel
from prologue.patching.copying import copy_file
from prologue_bench.errors import BenchError
from prologue_bench.links.recorded import (
    RECORD,
    VMLINUX,
    LinkPlan,
    RecordedLink,
    digest_of,
    look_at,
    read_record,
    traced_functions,
    write_record,
)
from prologue_bench.links.relink import SCRATCH, relinking
from prologue_bench.links.tree import BuildTree, ordered_script
from prologue_bench.results.append_only import lock

_LOCK: Final = "lock"
_NAME: Final = re.compile(r"link-\d{2,}")

LinkCheck = Callable[[Path], None]


def link_directories(directory: Path) -> tuple[Path, ...]:
    """Return the directories of all links in a directory, by their numbers.

    Raises:
        BenchError: there are none.

    """
    links = _links_in(directory) if directory.is_dir() else ()
    if not links:
        raise BenchError(f"{directory}: no links there: `prologue bench links` makes them")
    return links


def _links_in(directory: Path) -> tuple[Path, ...]:
    entries = sorted(directory.iterdir(), key=lambda entry: (len(entry.name), entry.name))
    return tuple(entry for entry in entries if _NAME.fullmatch(entry.name) and (entry / RECORD).is_file())


@contextmanager
def hold_links(directory: Path) -> Iterator[None]:
    """Make a directory for links if need be, and keep other runs out of it. What a killed run left is removed.

    Raises:
        BenchError: another run is at work there, or it cannot be made; or, while it is held, a file cannot be read or
            written.

    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        guard = (directory / _LOCK).open("a")
    except OSError as error:
        raise BenchError(f"{error.filename or directory}: {error.strerror}") from error
    with guard:
        lock(guard, directory)
        try:
            for stale in directory.glob(f"{SCRATCH}*"):
                shutil.rmtree(stale)
            yield
        except OSError as error:
            raise BenchError(f"{error.filename or directory}: {error.strerror}; the same command resumes") from error


def plan_links(tree: BuildTree, count: int, seed: int, alignments: Sequence[int]) -> tuple[LinkPlan, ...]:
    """Give each link a random order; alignments take turns. More links of the same seed begin with the same ones."""
    plans = []
    for number in range(count):
        order = [str(unit) for unit in tree.units]
        random.Random(f"{seed}/{number}").shuffle(order)
        alignment = alignments[number % len(alignments)]
        plans.append(LinkPlan(seed=seed, alignment=alignment, granularity=tree.granularity, order=tuple(order)))
    return tuple(plans)


def make_links(tree: BuildTree, plans: Sequence[LinkPlan], directory: Path, check: LinkCheck) -> Iterator[RecordedLink]:
    """Make the link of each plan that has none yet; yield every link, in the order of the plans.

    Raises:
        BenchError: a link failed, did not follow its order, or is of another build or plan than the directory's.
        PrologueError: what ``check`` raises.

    """
    reference = traced_functions(Kernel(tree.out / VMLINUX))
    functions = digest_of(reference)  # what was built there since has others
    names = [f"link-{number:02}" for number in range(1, len(plans) + 1)]
    missing = any(not (directory / name / RECORD).is_file() for name in names)
    with relinking(tree, directory) if missing else nullcontext(_refuse) as link:
        for name, plan in zip(names, plans, strict=True):
            if not (directory / name / RECORD).is_file():
                linked = link(ordered_script(tree, plan.order, plan.alignment))
                recorded = look_at(linked, name, tree.out, plan, reference)
                if not recorded.moved:
                    raise BenchError(f"{tree.out}: the linker did not follow the order that it was given")
                _require_another(recorded, directory)
                check(linked)
                _add(directory, linked, recorded)
            recorded = read_record(directory / name)
            if (recorded.plan, recorded.source, recorded.functions) != (plan, str(tree.out), functions):
                raise BenchError(_other(directory / name, "another build, seed or list of alignments"))
            yield recorded


def take_links(files: Sequence[Path], directory: Path, check: LinkCheck) -> Iterator[RecordedLink]:
    """Copy links that a user made, those that are not there yet; yield every link, in their order.

    Raises:
        BenchError: they are not links of one build, two are the same, or the directory has other links.
        PrologueError: what ``check`` raises.

    """
    reference = traced_functions(Kernel(files[0]))
    for number, file in enumerate(files, 1):
        name = f"link-{number:02}"
        recorded = look_at(file, name, file, None, reference)
        if not (directory / name / RECORD).is_file():
            _require_another(recorded, directory)
            check(file)
            with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=directory) as scratch:
                copy = Path(scratch, VMLINUX)
                copy_file(file, copy)
                _add(directory, copy, recorded)
        elif read_record(directory / name) != recorded:
            raise BenchError(_other(directory / name, f"another vmlinux than {file}"))
        yield recorded


def _add(directory: Path, vmlinux: Path, recorded: RecordedLink) -> None:
    """Move a vmlinux and its record to their place: both are there, or none."""
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=directory) as scratch:
        whole = Path(scratch, recorded.name)
        whole.mkdir()
        vmlinux.replace(whole / VMLINUX)
        write_record(recorded, whole)
        whole.replace(directory / recorded.name)


def _require_another(recorded: RecordedLink, directory: Path) -> None:
    """Refuse a link that is not of the build of those that are there, or the same as one of them."""
    for other in map(read_record, _links_in(directory)):
        if (other.functions, other.release) != (recorded.functions, recorded.release):
            raise BenchError(
                f"{recorded.source}: not another link of the build of {other.source}: "
                "its traced functions have other names or sizes, or its release differs"
            )
        if other.build_id == recorded.build_id:
            raise BenchError(f"{recorded.source}: the same link as {other.name}, build-id {other.build_id}")


def _refuse(_script: str) -> Path:
    raise AssertionError("nothing is missing")


def _other(place: Path, what: str) -> str:
    return f"{place}: a link of {what}: name another directory"
