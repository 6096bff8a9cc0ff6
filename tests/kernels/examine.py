"""One kernel, from what was built to what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from prologue_bench.errors import BenchError
from prologue_bench.guest.vm import Machine
from tests.kernels.boots import Booted, boot_damaged, boot_first_trace, boot_form, boot_tracing
from tests.kernels.damage import damaged, damages_of
from tests.kernels.files import Form, copy_form, forgotten, refused, release_of, scanned, verified
from tests.kernels.judge import damage_problems, problems
from tests.kernels.recipes import Unusual
from tests.kernels.table import Seen
from tests.support.debian.kbuild import BuiltKernel

_COLUMNS = {
    "audit": "audit",
    "self-test": "self-tests",
    "tests at boot": "self-tests",
    "dmesg": "boot",
    "taint": "boot",
}


def examine(kernel: Unusual, built: BuiltKernel, directory: Path, *, toggles: int = 20, only: bool = False) -> Seen:
    """Verify and boot both forms; with ``only`` the processed one is booted, once, without its tests at boot."""
    failed: dict[str, list[str]] = {}
    boots: list[Booted] = []
    facts, lost = {"release": release_of(built)}, frozenset[str]()
    for processed in (False, True):
        form, refused_files = copy_form(built, processed, directory / ("processed" if processed else "linked"))
        if not processed:
            scan = scanned(form)
            facts["sites"] = f"{scan['sites']:,} ({scan['layout']}; {scan['encoding']})"
            lost = forgotten(built) if scan["zero_records"] else lost
            facts["lost"] = f"no finding but PL206 for {len(lost)}, which `--release` refuses" if lost else ""
        found = refused_files or verified(form, built, lost)
        failed.setdefault("verify", []).extend(f"{form.name}: {problem}" for problem in found)
        if refused_files or (only and not processed):
            continue
        for machine, boot in _boots(kernel, built, form, toggles, only=only):
            try:
                booted = boot(machine)
            except BenchError as error:
                failed.setdefault("boot", []).append(f"{form.name}, {machine.cpu}: {_reason(error)}")
                continue
            plain = next((one for one in boots if one.machine == machine and not one.form.processed), None)
            boots.append(booted)
            wrong = problems(booted, built, plain if processed else None)
            _progress(booted, wrong)
            for problem in wrong:
                column = next((value for key, value in _COLUMNS.items() if problem.startswith(key)), "tracers")
                failed.setdefault(column, []).append(f"{form.name}, {machine.cpu}: {problem}")
        if processed and kernel.damaged and not only:
            names, found = _damaged(form, kernel.machine)
            facts["damage"] = f"{len(names)} kinds of damage"
            failed.setdefault("marker 2", []).extend(found)
    return Seen(kernel, built, facts, tuple(boots), {key: value for key, value in failed.items() if value})


def _boots(
    kernel: Unusual, built: BuiltKernel, form: Form, toggles: int, *, only: bool
) -> Iterator[tuple[Machine, Callable[[Machine], Booted]]]:
    """Each boot of one form, and the machine for it."""

    def everything(machine: Machine) -> Booted:
        return boot_form(form, built, machine, toggles=toggles, tests_at_boot=not only and has_tests)

    has_tests = "startup_tests" in kernel.recipe.options
    yield kernel.machine, everything
    if only:
        return
    if has_tests:  # without them, the boot with everything begins with what this one does
        yield kernel.machine, lambda machine: boot_first_trace(form, built, machine)
    if form.processed:
        yield kernel.machine, lambda machine: boot_tracing(form, machine)
        yield from ((machine, everything) for machine in kernel.others)


def _damaged(form: Form, machine: Machine) -> tuple[list[str], list[str]]:
    """Damage the processed kernel in each way, verify and boot it: the kinds, and what was wrong."""
    names, found = [], []
    for damage in damages_of(form):
        names.append(damage.name)
        broken = damaged(form, damage, form.directory / damage.name.replace(" ", "-"))
        if not refused(broken):
            found.append(f"{damage.name}: verify refuses nothing")
        try:
            booted = boot_damaged(broken, machine, form.vmlinux)
        except BenchError as error:
            found.append(f"{damage.name}: {_reason(error)}")
        else:
            wrong = list(damage_problems(booted, damage))
            _progress(booted, wrong)
            found += wrong
        broken.vmlinux.unlink()
        broken.image.unlink()
    return names, found


def _progress(booted: Booted, wrong: list[str]) -> None:
    what = f"{booted.form.directory.name}, {booted.kind}, {booted.machine.cpu}: {booted.run.seconds:.0f} s"
    print("\n  ".join([what, *wrong]), flush=True)


def _reason(error: BenchError) -> str:
    """Why a guest was lost; the rest of the message has places on this machine, which the table must not have."""
    print(error, flush=True)
    return error.message.partition("; console in")[0]
