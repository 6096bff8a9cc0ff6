"""One kernel, from what was built to what came of it."""

from __future__ import annotations

from pathlib import Path

from prologue_bench.errors import BenchError
from prologue_bench.guest.kbuild import BuiltKernel
from tests.kernels.boots import Booted, boot_form
from tests.kernels.files import copy_form, forgotten, release_of, scanned, verified
from tests.kernels.judge import problems
from tests.kernels.recipes import Unusual
from tests.kernels.table import Seen

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
        form, refused = copy_form(built, processed, directory / ("processed" if processed else "linked"))
        if not processed:
            scan = scanned(form)
            facts["sites"] = f"{scan['sites']:,} ({scan['layout']}; {scan['encoding']})"
            lost = forgotten(built) if scan["zero_records"] else lost
            facts["lost"] = f"no finding but PL206 for {len(lost)}, which `--release` refuses" if lost else ""
        found = refused or verified(form, built, lost)
        failed.setdefault("verify", []).extend(f"{form.name}: {problem}" for problem in found)
        if refused or (only and not processed):
            continue
        for machine in (kernel.machine, *(kernel.others if processed and not only else ())):
            try:
                booted = boot_form(form, built, machine, toggles=toggles, tests_at_boot=not only)
            except BenchError as error:
                # What follows are places on this machine, which the table must not have.
                print(error, flush=True)
                why = error.message.partition("; console in")[0]
                failed.setdefault("boot", []).append(f"{form.name}, {machine.cpu}: {why}")
                continue
            boots.append(booted)
            same = machine == kernel.machine and booted is not boots[0]
            for problem in problems(booted, built, boots[0] if same else None):
                column = next((value for key, value in _COLUMNS.items() if problem.startswith(key)), "tracers")
                failed.setdefault(column, []).append(f"{form.name}, {machine.cpu}: {problem}")
    return Seen(kernel, built, facts, tuple(boots), {key: value for key, value in failed.items() if value})
