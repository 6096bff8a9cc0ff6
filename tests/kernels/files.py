"""The files of one kernel in one form, and what the tool says of them."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from prologue.cli.main import main as prologue
from prologue_bench.errors import BenchError
from tests.support.debian.kbuild import CROSS, BuiltKernel

# 6.1 keeps the records of overridden weak functions; a processed file has the build-id of the one it was made from.
_TRUE: Final = {"PL109", "PL406"}


@dataclass(frozen=True, slots=True)
class Form:
    """A copy of the kernel and its modules, processed or not."""

    processed: bool
    directory: Path
    vmlinux: Path
    modules: tuple[Path, ...]

    @property
    def name(self) -> str:
        return "processed" if self.processed else "not processed"

    @property
    def image(self) -> Path:
        return self.directory / "Image"


def copy_form(built: BuiltKernel, processed: bool, directory: Path) -> tuple[Form, list[str]]:
    """Make it; also what the tool had against it."""
    directory.mkdir()
    vmlinux = Path(shutil.copy(built.vmlinux, directory))
    modules = tuple(Path(shutil.copy(path, directory)) for path in built.modules)
    form, problems = Form(processed, directory, vmlinux, modules), []
    if processed:
        native = ("--in-place", "--contract", "native", "-q")
        for files in ([vmlinux], modules):
            if status := prologue(["patch", *map(str, files), *native]):
                problems.append(f"patch {files[0].name} ended with {status}")
    if status := prologue(["image", str(vmlinux), "-o", str(form.image)]):
        problems.append(f"image ended with {status}")
    return form, problems


def forgotten(built: BuiltKernel) -> frozenset[str]:
    """Functions whose record the kernel's build loses, and which PL206 finds.

    ``parse_symbols`` of scripts/sorttable.c (7.2) reads three words from each line of ``nm -S``. An undefined symbol,
    which Clang's LTO may leave, has none before its letter: the line after it is read as a part of it.
    """
    nm = next((name for name in built.recipe.compilers if name.startswith("llvm-nm")), f"{CROSS}nm")
    listed = subprocess.run([nm, "-S", str(built.vmlinux)], capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in listed.splitlines()]
    return frozenset(line[-1] for before, line in pairwise(lines) if len(before) == 2 and len(line) == 4)


def verified(form: Form, built: BuiltKernel, lost: frozenset[str]) -> list[str]:
    """What the rules find, which should be nothing; a processed kernel must be fit for release, and reversible.

    ``lost`` are functions whose record the kernel's own build loses.
    """
    modules = [str(path) for path in form.modules]
    runs = [[str(form.vmlinux)], [*modules, "--vmlinux", str(form.vmlinux)]]
    if form.processed:
        runs = [
            [str(form.vmlinux), *modules, "--release"],
            [str(form.vmlinux), "--image", str(form.image), "--against", str(built.vmlinux)],
        ]
    problems = [problem for run in runs for problem in _findings(form, run, lost)]
    if form.processed:
        back = form.directory / "back"
        status = prologue(["patch", str(form.vmlinux), "--reverse", "-o", str(back), "-q"])
        if status or back.read_bytes() != built.vmlinux.read_bytes():
            problems.append("patch --reverse does not give the linked file")
        back.unlink(missing_ok=True)
    return problems


def _findings(form: Form, arguments: list[str], lost: frozenset[str]) -> list[str]:
    report = form.directory / "report.json"
    report.unlink(missing_ok=True)
    status = prologue(["verify", *arguments, "--json", "--no-config", "-o", str(report), "-q"])
    if not report.exists():
        return [f"verify ended with {status}"]
    data = json.loads(report.read_text(encoding="utf-8"))
    true = [one["code"] in _TRUE or (one["code"] == "PL206" and one["symbol"] in lost) for one in data["findings"]]
    found = zip(data["findings"], true, strict=True)
    false = [f"{one['code']} {one['symbol']}: {one['message']}" for one, is_true in found if not is_true]
    if not false and lost and "--release" in arguments:
        return [] if status == 1 else [f"verify --release ended with {status} in spite of PL206"]
    return false if false or not status else [f"verify ended with {status}: {data['summary']}"]


def refused(form: Form) -> bool:
    """Whether ``verify`` refuses the vmlinux; its boot file is made in any case."""
    status = prologue(["verify", str(form.vmlinux), "--no-config", "-q", "-o", str(form.directory / "report")])
    if image := prologue(["image", str(form.vmlinux), "-o", str(form.image)]):
        raise BenchError(f"prologue image {form.vmlinux} ended with {image}")
    return status == 1


def scanned(form: Form) -> dict[str, Any]:
    """What ``prologue scan`` says of the vmlinux."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert prologue(["scan", str(form.vmlinux), "--json"]) == 0
    return dict(json.loads(out.getvalue())["files"][0])


def release_of(built: BuiltKernel) -> str:
    """As ``uname -r`` says it, without our suffix."""
    text = (built.out / "include" / "config" / "kernel.release").read_text(encoding="utf-8")
    return re.sub(r"-prologue.*", "", text.strip())
