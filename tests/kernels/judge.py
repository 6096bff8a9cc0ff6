"""What a boot should have shown, and did not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from prologue.sites.kernel import Kernel
from prologue_bench.guest.kbuild import BuiltKernel
from prologue_bench.guest.vm import GuestRun
from tests.kernels.boots import FUNCTION, STATES, Booted
from tests.real_kernels.native import entry_offsets

# 7.2 has runtime constants whose variables have no symbol in its vmlinux: no memory decides them.
UNDECIDED: Final = ("runtime constants",)


def said(seen: GuestRun, name: str, *keys: str) -> list[tuple[Any, ...]]:
    """Members of all events of that name."""
    return [tuple(event.data[key] for key in keys) for event in seen.all(name)]


def problems(booted: Booted, built: BuiltKernel, plain: Booted | None = None) -> list[str]:
    """All that is wrong; ``plain`` is a boot of the same kernel that was not processed."""
    found = [
        *_traced(booted.run, booted.toggles),
        *_probed(booted.run, built),
        *_modules(booted.run),
        *_tests(booted, built),
    ]
    found += [*_quiet(booted.run, built), *_audits(booted)]
    if plain is not None:
        for event in ("list", "end"):
            if booted.run.one(event).data != plain.run.one(event).data:
                found.append(f"{event}: {booted.run.one(event).data}, not processed {plain.run.one(event).data}")
    return found


def _traced(seen: GuestRun, toggles: int) -> Iterator[str]:
    tracers = said(seen, "traced", "tracer", "entries")
    if [tracer for tracer, _ in tracers] != ["function", "function", "function_graph"]:
        yield f"tracers: {tracers}"
    yield from (f"{tracer}: {entries} entries" for tracer, entries in tracers if entries < 100)
    if not any(FUNCTION in line for (line,) in said(seen, "entry", "line")):
        yield f"{FUNCTION} was not traced"
    for event in ("load", "toggle"):
        if [failed for (failed,) in said(seen, event, "failed")] != [0]:
            yield f"{event}: {seen.all(event)}"
    if said(seen, "toggle", "toggles") != [(toggles,)]:
        yield f"toggles: {said(seen, 'toggle', 'toggles')}, asked for {toggles}"


def _probed(seen: GuestRun, built: BuiltKernel) -> Iterator[str]:
    first, second = entry_offsets(built.vmlinux, FUNCTION)
    attempts = dict(said(seen, "attempt", "what", "error"))
    if (
        attempts.get(f"kprobe {first}", "not tried") is not None
        or attempts.get(f"kprobe {second}") != "Invalid argument"
    ):
        yield f"kprobes: {attempts}"
    hits = {(offset, tracer): count for offset, tracer, count in said(seen, "kprobe", "offset", "tracer", "hits")}
    if not 0 < hits.get((first, "nop"), 0) < hits.get((first, "function"), 0):
        yield f"kprobes' hits: {hits}"


def _modules(seen: GuestRun) -> Iterator[str]:
    if not said(seen, "module", "name") or not all(loaded for (loaded,) in said(seen, "module", "loaded")):
        yield f"modules: {seen.all('module')}"
    yield from (f"{event.data['what']}: {event.data['error']}" for event in seen.all("result") if not event.data["ok"])
    traced = said(seen, "module_traced", "name", "tracer", "entries")
    if not traced:
        yield "no module was traced"
    for name, tracer, entries in traced:
        if entries < 100:
            yield f"{name} under {tracer}: {entries} entries"
    direct = said(seen, "direct", "tracer", "calls")
    if not direct and any(name == "ftrace-direct" for (name,) in said(seen, "module", "name")):
        yield "no direct call was tried"
    yield from (f"direct calls under {tracer}: none" for tracer, calls in direct if not calls)


def _tests(booted: Booted, built: BuiltKernel) -> Iterator[str]:
    seen = booted.run
    if said(seen, "selftest", "outcome") != [("[PASS]",)]:
        yield f"self-test of the prologues: {seen.all('selftest')}"
    ((passed, failed),) = said(seen, "startup_tests", "passed", "failed")
    if failed or bool(passed) is not (booted.tests_at_boot and "startup_tests" in built.recipe.options):
        yield f"tests at boot: {passed} passed, failed: {failed or 'none'}"


def _quiet(seen: GuestRun, built: BuiltKernel) -> Iterator[str]:
    yield from (f"dmesg: {line}" for (line,) in said(seen, "dmesg", "line"))
    yield from (str(event.data) for event in seen.all("error"))
    if seen.one("end").data["taint"]:
        yield f"taint {seen.one('end').data['taint']}"
    sites = Kernel(built.vmlinux).sites
    if sites is None or not 0 < seen.one("list").data["count"] <= len(sites):
        yield f"functions that can be traced: {seen.one('list').data['count']}"


def _audits(booted: Booted) -> Iterator[str]:
    """A dump of a stopped machine has all that decides, so that no word of other mechanisms may be left."""
    if tuple(one.state for one in booted.audits) != STATES:
        yield f"audited: {[one.state for one in booted.audits]}"
    for one in booted.audits:
        yield from (f"audit, {one.state}: {problem}" for problem in one.problems[:3])
        if left := {name: count for name, count in one.unsure.items() if name not in UNDECIDED}:
            yield f"audit, {one.state}: not decided: {left}"
        swung = one.changed.get("second slots", 0) > 1000
        if not one.problems and swung is not one.state.startswith("function"):
            yield f"audit, {one.state}: {one.changed}"
