"""Kernels with our patch, built from source and booted in every mix of processed and unprocessed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from prologue.cli.main import main
from prologue.insn import a64
from prologue.kernel.kernel import Kernel
from prologue.kernel.load import open_binary
from prologue_bench.guest.initramfs import build_initramfs
from prologue_bench.guest.vm import GuestRun, Job, boot
from tests.kernels.judge import said
from tests.real_kernels.native import MACHINES, RECIPES, entry_offsets
from tests.support.cases import one_tested
from tests.support.debian.kbuild import BuiltKernel, make
from tests.support.elf_edit import ElfEdit
from tests.support.guest_jobs import initramfs_with_jobs
from tests.support.needs import needs_built_kernel, needs_tools
from tests.support.plain_boots import boot_plain
from tests.support.scripted_guest import run_script
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.builds, pytest.mark.qemu, pytest.mark.timeout(2400)]

FUNCTION: Final = "vfs_write"  # exported, so that it has a landing pad where there are any, and hackbench calls it
MODULES: Final = ("overlay", "ftrace-direct")  # there are more samples than one
UNSIGNED: Final = 1 << 13  # TAINT_UNSIGNED_MODULE (include/linux/panic.h)
UNUSED: Final = "kernel_halt"  # not before the end
TOGGLES: Final = {"processed": 5}  # of all sites, which takes TCG some seconds each; the other forms swing HOT
SWINGS: Final = 10  # of HOT
HOT: Final = "vfs_* sock_* unix_* *schedule*"  # what hackbench runs all the time
NO_BTI: Final = """
#include <linux/init.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

static noinline __attribute__((target("branch-protection=none"))) int nobti_work(int x)
{
	barrier();
	return x + 1;
}

static int set(const char *value, const struct kernel_param *param)
{
	int i;

	for (i = 0; i < 1000; i++)
		barrier_data((void *)(unsigned long)nobti_work(i));
	return 0;
}

static const struct kernel_param_ops ops = { .set = set };
module_param_cb(run, &ops, NULL, 0200);
MODULE_DESCRIPTION("A function without landing pad");
MODULE_LICENSE("GPL");
"""
TRACE_NO_BTI: Final = """
cd /sys/kernel/tracing
insmod /nobti.ko
echo nobti_work >set_ftrace_filter
echo function >current_tracer
echo 1 >/sys/module/nobti/parameters/run
echo 0 >tracing_on
echo "traced $(grep -c 'nobti_work <-set' trace)"
echo nop >current_tracer
rmmod nobti
dmesg | grep -E 'WARNING|unexpected insn|ftrace bug'
"""
# Whether the kernel is processed, whether its modules are.
FORMS: Final = {
    "never processed": (False, False),
    "processed": (True, True),
    "processed kernel": (True, False),
    "processed modules": (False, True),
}
# A kernel and modules that are both processed, or both not, are what `make test` boots.
MIXED: Final = ("processed kernel", "processed modules")
CASES: Final = [
    pytest.param(name, form, marks=[pytest.mark.extended] if form in MIXED else [])
    for name in RECIPES
    for form in FORMS
]


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
        ("toggles", TOGGLES.get(form, SWINGS)),
    )
    if form not in TOGGLES:
        parameters = (*parameters, ("toggled", HOT))
    job = Job(names=tuple(jobs), parameters=parameters, timeout=400)
    start = boot if with_kernel or with_modules else boot_plain
    return start(directory / "Image", initramfs_with_jobs(modules), directory / "log", job, machine=machine(built))


def machine(built: BuiltKernel) -> Any:
    return next(MACHINES[name] for name, recipe in RECIPES.items() if recipe == built.recipe)


@pytest.mark.parametrize(("built", "form"), CASES, indirect=["built"])
def test_every_form_works_the_same(built: BuiltKernel, boots: Any, form: str) -> None:
    seen, plain = boots(form), boots("never processed")
    first, second = entry_offsets(built.vmlinux, FUNCTION)

    # not where it was linked: every record and literal was relocated
    linked = Kernel(built.vmlinux).symbols.require("_stext")
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
    assert said(seen, "toggle", "toggles", "failed") == [(TOGGLES.get(form, SWINGS), 0)]
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


@pytest.mark.parametrize("built", one_tested(*RECIPES), indirect=True)
@pytest.mark.parametrize("slot", [a64.NOP, a64.RET], ids=["a NOP", "another word"])
def test_a_site_without_its_mov_is_an_ftrace_bug(built: BuiltKernel, tmp_path: Path, slot: int) -> None:
    """As with a marker that does not tell the truth: ftrace gives up, and nothing loses its LR."""
    vmlinux = Path(shutil.copy(built.vmlinux, tmp_path))
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    elf = ElfEdit(vmlinux)
    first, second = entry_offsets(built.vmlinux, UNUSED)
    elf.set_word(elf.value(UNUSED) + first, slot)
    elf.save(vmlinux)
    assert main(["image", str(vmlinux), "-o", str(tmp_path / "Image")]) == 0
    job = Job(names=("trace_one",), parameters=(("function", UNUSED),))
    seen = boot(tmp_path / "Image", build_initramfs(), tmp_path / "log", job, machine=machine(built))
    assert any(f"ftrace: no MOV X9, LR before {UNUSED}+{second:#x}/" in line for line in seen.lines)
    assert "------------[ ftrace bug ]------------" in {line for (line,) in said(seen, "dmesg", "line")}
    assert not any("Oops" in line or "Internal error" in line for line in seen.lines)
    assert seen.one("end").data["functions"] == 0  # ftrace is off


@pytest.mark.extended  # a module of ours, for what no compiler of the tests does by itself
def test_a_function_without_landing_pad(built: BuiltKernel, tmp_path: Path) -> None:
    """In a kernel with BTI and CALL_OPS: as Clang 21 compiles static functions, here by an attribute."""
    if "bti" not in built.recipe.options:
        pytest.skip("no kernel with BTI")
    source = tmp_path / "module"
    source.mkdir()
    (source / "nobti.c").write_text(NO_BTI)
    (source / "Makefile").write_text("obj-m := nobti.o\n")
    with built.copied() as tree:  # make writes into the build's directory
        done = make(tree, built.recipe, "PROLOGUE=true", f"M={source}", "modules")
        assert done.returncode == 0, done.stdout
    module = source / "nobti.ko"
    sites = open_binary(module).sites
    assert sites is not None
    assert sorted(sites.bti.tolist()) == [False, True]
    assert main(["patch", str(module), "--in-place", "--contract", "native"]) == 0
    assert main(["image", str(built.vmlinux), "-o", str(tmp_path / "Image")]) == 0
    lines = run_script(
        tmp_path / "Image", TRACE_NO_BTI, {"nobti.ko": module.read_bytes()}, tmp_path / "log", machine(built)
    )
    assert "traced 1000" in lines
    assert not any("unexpected insn" in line or "WARNING" in line or "ftrace bug" in line for line in lines)


@pytest.mark.parametrize("processed", [False, True], ids=["as linked", "processed"])
def test_the_rules_are_silent(built: BuiltKernel, tmp_path: Path, processed: bool, tool: Tool) -> None:
    vmlinux = Path(shutil.copy(built.vmlinux, tmp_path))
    modules = [Path(shutil.copy(path, tmp_path)) for path in built.modules]
    if processed:
        assert main(["patch", str(vmlinux), "--in-place"]) == 0
        assert main(["patch", *map(str, modules), "--in-place", "--contract", "native"]) == 0

    def report(*files: object) -> set[str]:
        findings = tool("verify", *files, "--json", "--no-config").json["findings"]
        return {finding["code"] for finding in findings}

    # 6.1 keeps the records of overridden weak functions, later kernels zero them.
    assert report(vmlinux) == ({"PL109"} if built.recipe.source[-3:] == "6.1" else set())
    assert report(*modules, "--vmlinux", vmlinux) == set()
    if processed:
        assert report(vmlinux, "--against", built.vmlinux) - {"PL109"} == {"PL406"}
        assert main(["patch", str(vmlinux), "--in-place", "--reverse"]) == 0
        assert vmlinux.read_bytes() == built.vmlinux.read_bytes()
