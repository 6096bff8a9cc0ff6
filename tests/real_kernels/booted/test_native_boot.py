"""Kernels with our patch, built from source and booted in every mix of processed and unprocessed."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from prologue.cli.main import main
from prologue.sites.kernel import Kernel
from prologue_bench.guest.initramfs import build_initramfs
from prologue_bench.guest.kbuild import BuiltKernel
from prologue_bench.guest.vm import GuestRun, Job, boot
from tests.real_kernels.native import MACHINES, RECIPES, entry_offsets
from tests.support.needs import needs_built_kernel, needs_tools

pytestmark = [pytest.mark.kernel, pytest.mark.builds, pytest.mark.qemu, pytest.mark.timeout(2400)]

FUNCTION: Final = "vfs_write"  # exported, so that it has a landing pad where there are any, and hackbench calls it
MODULES: Final = ("overlay", "ftrace-direct")  # there are more samples than one
UNSIGNED: Final = 1 << 13  # TAINT_UNSIGNED_MODULE (include/linux/panic.h)
HOT: Final = "vfs_* sock_* unix_* *schedule*"  # what hackbench runs all the time
# Whether the kernel is processed, whether its modules are.
FORMS: Final = {
    "never processed": (False, False),
    "processed": (True, True),
    "processed kernel": (True, False),
    "processed modules": (False, True),
}


@pytest.fixture(scope="module", params=list(RECIPES))
def built(request: pytest.FixtureRequest) -> BuiltKernel:
    needs_tools("qemu-system-aarch64")
    return needs_built_kernel(RECIPES[request.param])


@pytest.fixture(scope="module")
def boots(built: BuiltKernel, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Each form is booted once."""
    done: dict[str, GuestRun] = {}
    directory = tmp_path_factory.mktemp("native")

    def get(form: str) -> GuestRun:
        if form not in done:
            done[form] = run(built, form, directory / form.replace(" ", "-"))
        return done[form]

    return get


def run(built: BuiltKernel, form: str, directory: Path) -> GuestRun:
    directory.mkdir()
    with_kernel, with_modules = FORMS[form]
    vmlinux = Path(shutil.copy(built.vmlinux, directory))
    modules = [Path(shutil.copy(path, directory)) for path in built.modules if path.stem in MODULES]
    if with_kernel:
        assert main(["patch", str(vmlinux), "--in-place"]) == 0
    if with_modules:
        assert main(["patch", *map(str, modules), "--in-place", "--contract", "native"]) == 0
    assert main(["image", str(vmlinux), "-o", str(directory / "Image")]) == 0
    slots = entry_offsets(built.vmlinux, FUNCTION)
    offsets = " ".join(map(str, range(0, slots[1] + 4, 4)))
    jobs = ["list", "trace_one", "kprobes", "ftrace_cycle", "toggle", "modules"]
    if any(path.stem == "ftrace-direct" for path in modules):
        jobs.append("direct")
    parameters: tuple[tuple[str, object], ...] = (
        ("function", FUNCTION),
        ("offsets", offsets),
        ("cycles", 1),
        ("toggles", 50),
    )
    if form != "processed":  # swinging all sites takes TCG half a minute and more
        parameters = (*parameters, ("toggled", HOT))
    job = Job(tuple(jobs), parameters, timeout=400)
    return boot(directory / "Image", build_initramfs(modules), directory / "log", job, machine=machine(built))


def machine(built: BuiltKernel) -> Any:
    return next(MACHINES[name] for name, recipe in RECIPES.items() if recipe == built.recipe)


def said(seen: GuestRun, name: str, *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(event.data[key] for key in keys) for event in seen.all(name)]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_works_the_same(built: BuiltKernel, boots: Any, form: str) -> None:
    seen, plain = boots(form), boots("never processed")
    first, second = entry_offsets(built.vmlinux, FUNCTION)

    # not where it was linked: every record and literal was relocated
    linked = Kernel(built.vmlinux).symbols.find("_stext")
    assert linked is not None
    slide = int(str(seen.one("place").data["stext"]), 16) - linked.vaddr
    assert slide > 0
    assert slide % (1 << 16) == 0
    # the same functions in the same order
    assert seen.one("list").data == plain.one("list").data
    assert seen.one("list").data["count"] > 10_000
    # one function alone, then all of them with both tracers
    assert said(seen, "entry", "line")
    assert all(FUNCTION in line for (line,) in said(seen, "entry", "line"))
    assert all(entries > 100 for (entries,) in said(seen, "traced", "entries"))
    assert said(seen, "traced", "tracer") == [("function",), ("function",), ("function_graph",)]
    # a probe on the MOV works, alone and together with the tracer; one on the BL is refused
    attempts = dict(said(seen, "attempt", "what", "error"))
    assert attempts == dict(said(plain, "attempt", "what", "error"))
    assert attempts[f"kprobe {first}"] is None
    assert attempts[f"kprobe {second}"] == "Invalid argument"
    hits = {(offset, tracer): count for offset, tracer, count in said(seen, "kprobe", "offset", "tracer", "hits")}
    assert 0 < hits[first, "nop"] < hits[first, "function"]
    assert hits[second, "function"] == 0
    # all sites on and off under load
    assert said(seen, "toggle", "toggles", "failed") == [(50, 0)]
    assert said(seen, "load", "failed") == [(0,)]
    # a module is loaded, traced while it works, and unloaded
    assert said(seen, "module", "name", "loaded", "functions") == said(plain, "module", "name", "loaded", "functions")
    assert [event.data for event in seen.all("result") if not event.data["ok"]] == []
    assert [what for (what,) in said(seen, "result", "what")] == [what for (what,) in said(plain, "result", "what")]
    assert {tracer for (tracer,) in said(seen, "module_traced", "tracer")} == {"function", "function_graph"}
    assert min(entries for (entries,) in said(seen, "module_traced", "entries")) > 100
    # a trampoline of its own, alone and sharing the function with the tracer
    direct = said(seen, "direct", "tracer", "calls")
    assert [tracer for tracer, _ in direct] == (["nop", "function"] if has_direct_calls(built) else [])
    assert all(calls > 0 for _, calls in direct)

    assert seen.all("error") == []
    assert seen.all("dmesg") == []
    assert seen.one("start").data["cpus"] == 2
    assert seen.one("end").data["taint"] == (UNSIGNED if "signed" in built.recipe.options else 0)
    assert seen.one("end").data["functions"] == plain.one("end").data["functions"]


def has_direct_calls(built: BuiltKernel) -> bool:
    return any(path.stem == "ftrace-direct" for path in built.modules)


@pytest.mark.parametrize("processed", [False, True], ids=["as linked", "processed"])
def test_the_rules_are_silent(
    built: BuiltKernel, tmp_path: Path, processed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    vmlinux = Path(shutil.copy(built.vmlinux, tmp_path))
    modules = [Path(shutil.copy(path, tmp_path)) for path in built.modules]
    if processed:
        assert main(["patch", str(vmlinux), "--in-place"]) == 0
        assert main(["patch", *map(str, modules), "--in-place", "--contract", "native"]) == 0
    report = partial(_codes, capsys)
    # 6.1 keeps the records of overridden weak functions, later kernels zero them.
    assert report([str(vmlinux)]) == ({"PL109"} if built.recipe.source[-3:] == "6.1" else set())
    assert report([*map(str, modules), "--vmlinux", str(vmlinux)]) == set()
    if processed:
        assert report([str(vmlinux), "--against", str(built.vmlinux)]) - {"PL109"} == {"PL406"}
        assert main(["patch", str(vmlinux), "--in-place", "--reverse"]) == 0
        assert vmlinux.read_bytes() == built.vmlinux.read_bytes()


def _codes(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> set[str]:
    capsys.readouterr()
    assert main(["verify", *arguments, "--format", "json", "--no-config"]) == 0
    return {finding["code"] for finding in json.loads(capsys.readouterr().out)["findings"]}
