"""The files of one kernel in one form, and what the tool says of them."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from prologue.cli.main import main as prologue
from prologue_bench.guest.kbuild import BuiltKernel

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


def verified(form: Form, built: BuiltKernel) -> list[str]:
    """What the rules find, which should be nothing; a processed kernel must be fit for release, and reversible."""
    modules = [str(path) for path in form.modules]
    runs = [[str(form.vmlinux)], [*modules, "--vmlinux", str(form.vmlinux)]]
    if form.processed:
        runs = [
            [str(form.vmlinux), *modules, "--release"],
            [str(form.vmlinux), "--image", str(form.image), "--against", str(built.vmlinux)],
        ]
    problems = [problem for run in runs for problem in _findings(form, run)]
    if form.processed:
        back = form.directory / "back"
        status = prologue(["patch", str(form.vmlinux), "--reverse", "-o", str(back), "-q"])
        if status or back.read_bytes() != built.vmlinux.read_bytes():
            problems.append("patch --reverse does not give the linked file")
        back.unlink(missing_ok=True)
    return problems


def _findings(form: Form, arguments: list[str]) -> list[str]:
    report = form.directory / "report.json"
    report.unlink(missing_ok=True)
    status = prologue(["verify", *arguments, "--format", "json", "--no-config", "-o", str(report), "-q"])
    if not report.exists():
        return [f"verify ended with {status}"]
    data = json.loads(report.read_text(encoding="utf-8"))
    found = [f"{one['code']} {one['symbol']}: {one['message']}" for one in data["findings"] if one["code"] not in _TRUE]
    return found if found or not status else [f"verify ended with {status}: {data['summary']}"]


def scanned(form: Form) -> dict[str, Any]:
    """What ``prologue scan`` says of the vmlinux."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert prologue(["scan", str(form.vmlinux), "--json"]) == 0
    return dict(json.loads(out.getvalue()))


def release_of(built: BuiltKernel) -> str:
    """As ``uname -r`` says it, without our suffix."""
    text = (built.out / "include" / "config" / "kernel.release").read_text(encoding="utf-8")
    return re.sub(r"-prologue.*", "", text.strip())
