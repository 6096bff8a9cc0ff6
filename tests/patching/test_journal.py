"""Version 2 of the marker, in place: a run that is killed at any write is finished, or undone, from its journal."""

from __future__ import annotations

import os
import random
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from prologue.arrays import I64, U64
from prologue.cli.main import main
from prologue.insn import a64
from prologue.kernel.kernel import Kernel
from prologue.patching import apply
from prologue.patching.journal import journal_of
from prologue.patching.patch import PatchRequest, patch_file
from prologue.patching.words import write_words
from prologue.plan.build import build_plan
from tests.mini_kernel.build import Form, Spec
from tests.support.cases import one_quick, one_tested
from tests.support.elf_edit import edit
from tests.support.processes import room_for
from tests.support.tool import Tool

Mini = Callable[[Spec], Path]


class KilledError(Exception):
    """The run ends here, as by SIGKILL: nothing of it cleans up."""


@pytest.fixture
def vmlinux(mini: Mini) -> Path:
    return mini(Spec(marker=2))


def killed_after(monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """Let so many words be written, one by one, and no more."""
    left = iter(range(writes))

    def write(fd: int, offsets: I64, words: U64, width: int) -> None:
        for k in range(len(offsets)):
            if next(left, None) is None:
                raise KilledError
            write_words(fd, offsets[k : k + 1], words[k : k + 1], width)

    monkeypatch.setattr(apply, "write_words", write)


def interrupted(vmlinux: Path, writes: int, *, reverse: bool = False) -> bool:
    """Patch in place and be killed; whether the run was not over by then."""
    with pytest.MonkeyPatch.context() as patching:
        killed_after(patching, writes)
        try:
            patch_file(PatchRequest(reverse=reverse), vmlinux)
        except KilledError:
            return True
    return False


def in_tree(vmlinux: Path) -> list[str]:
    return sorted(path.name for path in vmlinux.parent.iterdir() if path.name.startswith(vmlinux.name))


@pytest.mark.thorough
@pytest.mark.parametrize("step", one_tested(11, 1))
@pytest.mark.parametrize("spec", one_quick(
    *(Spec(marker=2, form=form, layout=layout, zeros=True) for form in ("rela", "relr") for layout in ("4,2", "2")),
    Spec(marker=2, form="rela-applied"), Spec(marker=2, form="static"), Spec(marker=2, plain=True),
), ids=str)  # fmt: skip
def test_a_kill_at_any_write_leaves_what_can_be_finished_and_undone(mini: Mini, spec: Spec, step: int) -> None:
    """The first and the last write, and each one or some of those between them."""
    vmlinux = mini(spec)
    linked = vmlinux.read_bytes()
    stages = build_plan(Kernel(vmlinux), "native").stages
    words = 1 + sum(int((stage.old != stage.new).sum()) for stage in stages)  # the guard comes first
    final = vmlinux.with_name("final")
    assert main(["patch", str(vmlinux), "-o", str(final)]) == 0
    for writes in sorted({*range(1, words, step), words - 1}):
        for reverse, finish in product((False, True), ((), ("--reverse",))):
            result = linked if finish else final.read_bytes()
            vmlinux.write_bytes(final.read_bytes() if reverse else linked)
            assert interrupted(vmlinux, writes, reverse=reverse)
            assert Kernel(vmlinux).state == "unfinished"
            assert main(["verify", str(vmlinux)]) == 1
            assert main(["patch", str(vmlinux), "--in-place", *finish]) == 0
            assert vmlinux.read_bytes() == result
            assert in_tree(vmlinux) == [vmlinux.name]


def test_an_unfinished_file_is_pl202_and_nothing_else(vmlinux: Path, tool: Tool) -> None:
    assert interrupted(vmlinux, 20)
    said = tool("verify", vmlinux, status=1).out
    assert said.count("PL202") == 1
    assert "PL" not in said.replace("PL202", "")
    assert "journal" in said
    assert "unfinished" in tool("scan", vmlinux).out


def test_killed_before_the_first_write(vmlinux: Path) -> None:
    """The journal is there, and the file is as linked."""
    before = vmlinux.read_bytes()
    assert interrupted(vmlinux, 0)
    assert vmlinux.read_bytes() == before
    assert journal_of(vmlinux).exists()
    assert main(["verify", str(vmlinux)]) == 0
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    assert not journal_of(vmlinux).exists()


def test_killed_after_the_last_write(vmlinux: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is finished, and the journal still there: the next run removes it and changes no byte."""

    def killed(_: Path) -> None:
        raise KilledError

    with monkeypatch.context() as patching:
        patching.setattr(apply, "remove_journal", killed)
        with pytest.raises(KilledError):
            patch_file(PatchRequest(), vmlinux)
    finished = vmlinux.read_bytes()
    assert journal_of(vmlinux).exists()
    assert main(["verify", str(vmlinux)]) == 0
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    assert vmlinux.read_bytes() == finished
    assert not journal_of(vmlinux).exists()


def with_offset(journal: bytes, offset: int) -> bytes:
    """Let the journal's fourth row be of another place."""
    at = journal.index(b"\n") + 1 + 3 * 32  # rows of offset, width, old and new word, of 64 bits each
    return journal[:at] + struct.pack("<q", offset) + journal[at + 8 :]


SPOILED: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda journal: journal[:-9],
    "no journal": lambda _: b"something else",
    "empty": lambda _: b"",
    "of another version": lambda journal: journal.replace(b"journal/1", b"journal/2", 1),
    "of another build": lambda journal: journal.replace(b'"file_size": ', b'"file_size": 1', 1),
    "outside": lambda journal: with_offset(journal, 1 << 40),
    "its end has more than 64 bits": lambda journal: with_offset(journal, (1 << 63) - 4),
    "negative": lambda journal: with_offset(journal, -4),
    "of other words": lambda journal: journal.replace(struct.pack("<Q", a64.NOP), struct.pack("<Q", a64.RET), 10),
}


@pytest.mark.parametrize("how", [*SPOILED, "gone"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_bad_journal_is_refused_and_nothing_is_written(vmlinux: Path, how: str, tool: Tool, *, reverse: bool) -> None:
    assert interrupted(vmlinux, 30)
    journal = journal_of(vmlinux)
    if how == "gone":
        journal.unlink()
    else:
        journal.write_bytes(SPOILED[how](journal.read_bytes()))
    before = vmlinux.read_bytes()
    said = tool("patch", vmlinux, "--in-place", *(["--reverse"] if reverse else []), status=2).err
    assert "again" in said
    assert said.count("\n") == 1
    assert vmlinux.read_bytes() == before


def test_a_word_that_another_tool_wrote_meanwhile_stops_the_rest(vmlinux: Path, tool: Tool) -> None:
    assert interrupted(vmlinux, 30)
    with edit(vmlinux) as elf:
        elf.set_quad(elf.value("__start_mcount_loc") + 16, 0x1234567)
    before = vmlinux.read_bytes()
    said = tool("patch", vmlinux, "--in-place", status=2).err
    assert "which another tool wrote; nothing was written: link again" in said
    assert vmlinux.read_bytes() == before


def test_the_journal_cannot_be_written(vmlinux: Path, tool: Tool) -> None:
    """A directory of that name; in a directory that must not be written the same happens."""
    journal_of(vmlinux).mkdir()
    before = vmlinux.read_bytes()
    said = tool("patch", vmlinux, "--in-place", status=2).err
    assert "it is needed to write in place: write a copy instead (-o)" in said
    assert vmlinux.read_bytes() == before


def test_a_copy_needs_no_journal_and_an_unfinished_file_can_be_finished_as_one(vmlinux: Path) -> None:
    out = vmlinux.with_name("out")
    assert interrupted(vmlinux, 30)
    before = vmlinux.read_bytes()
    assert main(["patch", str(vmlinux), "-o", str(out)]) == 0
    assert main(["verify", str(out)]) == 0
    assert vmlinux.read_bytes() == before
    assert not journal_of(out).exists()


@pytest.mark.parametrize("form", ["rela", "relr"])
@pytest.mark.parametrize("run", one_quick(*range(4)))
def test_sigkill(mini: Mini, form: Form, run: int) -> None:
    """A real one, at a time of no choosing; a file whose last block was not written by then, either."""
    vmlinux = mini(Spec(marker=2, form=form))
    linked, whole = vmlinux.read_bytes(), vmlinux.with_name("whole")
    assert main(["patch", str(vmlinux), "-o", str(whole)]) == 0
    code = (
        "import os, signal, sys; from prologue.patching import apply; from prologue.patching.words import write_words\n"
        "n = int(sys.argv.pop())\n"
        "def write(fd, offsets, words, width):\n"
        "    global n\n"
        "    for k in range(len(offsets)):\n"
        "        n -= 1\n"
        "        if n < 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        write_words(fd, offsets[k:k+1], words[k:k+1], width)\n"
        "apply.write_words = write\n"
        "from prologue.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    writes = random.Random(run).randrange(36)  # noqa: S311 - not a secret
    command = [sys.executable, "-c", code, "patch", str(vmlinux), "--in-place", str(writes)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert vmlinux.read_bytes() != whole.read_bytes()
    assert main(["verify", str(vmlinux)]) == (1 if vmlinux.read_bytes() != linked else 0)
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    assert vmlinux.read_bytes() == whole.read_bytes()
    assert in_tree(vmlinux) == [vmlinux.name]


def test_a_full_disk_leaves_the_file_as_it_was(vmlinux: Path, tool: Tool) -> None:
    """A limit of file sizes stands for it: the journal is new, and the words of the file are there already."""
    before = vmlinux.read_bytes()
    with room_for(256):
        said = tool("patch", vmlinux, "--in-place", status=2).err
    assert "journal: cannot be written: File too large" in said
    assert vmlinux.read_bytes() == before
    assert in_tree(vmlinux) == [vmlinux.name]


def test_a_name_as_long_as_names_can_be(vmlinux: Path) -> None:
    long = Path(shutil.copy(vmlinux, vmlinux.with_name("v" * (os.pathconf(vmlinux.parent, "PC_NAME_MAX") - 1))))
    before = long.read_bytes()
    assert main(["patch", str(long), "--in-place"]) == 2
    assert long.read_bytes() == before
