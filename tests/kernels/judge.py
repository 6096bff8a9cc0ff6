"""What a boot should have shown, and did not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from prologue.kernel.kernel import Kernel
from prologue_bench.guest.vm import GuestRun
from tests.kernels.boots import DIRECT, FUNCTION, LIVEPATCH, STATES, TRACING, Audited, Booted
from tests.kernels.damage import Damage
from tests.real_kernels.native import entry_offsets
from tests.support.debian.kbuild import BuiltKernel

_LIVEPATCHED: Final = 1 << 15  # include/linux/panic.h, TAINT_LIVEPATCH: the sample was loaded
WRITTEN: Final = ("first slots", "second slots", "CALL_OPS literals")  # by ftrace, in the kernel's own text
_MANY: Final = 1000  # words: a part of all sites
_ALL: Final = 1 << 32


def said(seen: GuestRun, name: str, *keys: str) -> list[tuple[Any, ...]]:
    """Members of all events of that name."""
    return [tuple(event.data[key] for key in keys) for event in seen.all(name)]


def problems(booted: Booted, built: BuiltKernel, plain: Booted | None = None) -> list[str]:
    """All that is wrong; ``plain`` is a boot of the same kernel that was not processed."""
    seen = booted.run
    found = list(_quiet(seen, built))
    if booted.kind == "all":
        found += [*_traced(seen, booted.toggles), *_modules(seen), *_direct(booted), *_livepatched(booted)]
        found += _tests(booted, built)
    if booted.kind == "all" or booted.untraced:
        found += _probed(seen, built)
    if booted.untraced:
        found += [*_boot_log(booted, built), *_instances(seen)]
    if booted.kind == "from the start":
        found += _from_start(seen)
    found += _audits(booted)
    if plain is not None:
        events = ("list", "end") if booted.kind == plain.kind == "all" else ("list",)
        for event in events:
            if seen.one(event).data != plain.run.one(event).data:
                found.append(f"{event}: {seen.one(event).data}, not processed {plain.run.one(event).data}")
    return found


def damage_problems(booted: Booted, damage: Damage) -> Iterator[str]:
    """What a damaged kernel should have said, or should not have written."""
    data = booted.run.one("damaged").data
    if damage.message not in data["message"] or bool(damage.message) is not bool(data["message"]):
        yield f"{damage.name}: said {data['message']!r}, and not {damage.message!r}"
    if bool(data["bugs"]) is not bool(damage.message):
        yield f"{damage.name}: {data['bugs']} reports of an ftrace bug"
    if not data["alive"]:
        yield f"{damage.name}: the machine does not work on"
    written = [audit.changed.get("second slots", -1) for audit in booted.audits]
    allowed = range(damage.second_slots, damage.second_slots + 1) if damage.message else range(_MANY, _ALL)
    if len(written) != 1 or written[0] not in allowed:
        yield f"{damage.name}: second slots written: {written}"


def _boot_log(booted: Booted, built: BuiltKernel) -> Iterator[str]:
    """The kernel took as many records as the file has sites, from the build step if that did run."""
    sites = Kernel(built.vmlinux).sites
    count = len(sites) if sites is not None else 0
    expected = (count, count if booted.form.processed else -1)
    if (log := said(booted.run, "boot_log", "entries", "built")) != [expected]:
        yield f"dmesg: records, prologues of the build: {log}, expected {expected}"


def _instances(seen: GuestRun) -> Iterator[str]:
    runs = said(seen, "instance", "entries", "other", "on", "off")
    if len(runs) != 3 or not all(min(run[:3]) >= 100 and run[3] == 0 for run in runs):
        yield f"instances: {seen.all('instance')}"


def _from_start(seen: GuestRun) -> Iterator[str]:
    ((tracer, entries, on, off),) = said(seen, "from_start", "tracer", "entries", "on", "off")
    if tracer != "function" or min(entries, on) < 100 or off:
        yield f"ftrace=function: {seen.one('from_start').data}"


def _traced(seen: GuestRun, toggles: int) -> Iterator[str]:
    tracers = said(seen, "traced", "tracer", "entries")
    if [tracer for tracer, _ in tracers] != ["function", "function", "function_graph"]:
        yield f"tracers: {tracers}"
    yield from (f"{tracer}: {entries} entries" for tracer, entries in tracers if entries < 100)
    # Lines that kernel messages tore are no events: that FUNCTION was traced is what the first tracer counted.
    yield from (f"not {FUNCTION} was traced: {line}" for (line,) in said(seen, "entry", "line") if FUNCTION not in line)
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


def _has(booted: Booted, module: str) -> bool:
    return any(path.stem == module for path in booted.form.modules)


def _direct(booted: Booted) -> Iterator[str]:
    calls = dict(said(booted.run, "direct", "tracer", "calls"))
    if _has(booted, DIRECT) and not (calls.get("nop") and calls.get("function")):
        yield f"direct calls: {calls}"


def _livepatched(booted: Booted) -> Iterator[str]:
    patched = said(booted.run, "livepatch", "tracer", "patched")
    if _has(booted, LIVEPATCH) and patched != [("nop", 1), ("function", 1), ("unloaded", 0)]:
        yield f"livepatch: {patched}"


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
    if (taint := seen.one("end").data["taint"]) != (_LIVEPATCHED if seen.all("livepatch") else 0):
        yield f"taint {taint}"
    sites = Kernel(built.vmlinux).sites
    if sites is None or not 0 < seen.one("list").data["count"] <= len(sites):
        yield f"functions that can be traced: {seen.one('list').data['count']}"


def _audits(booted: Booted) -> Iterator[str]:
    """A dump of a stopped machine has all that decides, so that no word may be left."""
    states = [audit.state for audit in booted.audits]
    if states != _states(booted):
        yield f"audited: {states}"
    for audit in booted.audits:
        yield from (f"audit, {audit.state}: {problem}" for problem in audit.problems[:3])
        if audit.unsure:
            yield f"audit, {audit.state}: not decided: {audit.unsure}"
        if not audit.problems:
            yield from _written(booted, audit)


def _states(booted: Booted) -> list[str]:
    """In which states the memory of the machine should have been looked at."""
    if booted.kind == "first":
        return ["untraced"]
    if booted.kind == "from the start":
        return ["from the start"]
    return [
        *(["untraced"] if not booted.tests_at_boot else []),
        *(["livepatch"] if booted.run.all("livepatch") else []),
        *STATES,
    ]


def _written(booted: Booted, audit: Audited) -> Iterator[str]:
    """How many of ftrace's words differ from the file: none before the first trace; BLs while everything is traced."""
    first_trace = audit.state == "untraced"
    swung = audit.state in TRACING
    probed = int(not first_trace)  # the probe of a look
    expected = {
        "first slots": (0, probed) if booted.form.processed else (_MANY, _ALL),
        "second slots": (_MANY, _ALL) if swung else (0, 0 if first_trace else _MANY),
        "CALL_OPS literals": (0, 0) if first_trace else (_MANY, _ALL),
    }
    for name, (least, most) in expected.items():
        if name in audit.changed and not least <= audit.changed[name] <= most:
            yield f"audit, {audit.state}: {name}: {audit.changed[name]} words differ from the file"
