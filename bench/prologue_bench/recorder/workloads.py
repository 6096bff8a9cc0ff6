"""Makes a command, a way to read its number, a unit and a direction from what a user asks for with ``--workload``.

hackbench:process,sockets,g=10,l=1000      rt-tests' hackbench; process or thread, sockets or pipes
perf-messaging:thread,pipes,g=10,l=1000    perf bench sched messaging
kernel-build:/usr/src/linux,j=8            a build from defconfig there, after `make mrproper`, which deletes .config
time:COMMAND                               the wall time of any command
boot                                       not run, but measured by the target qemu: from QEMU's start to init
FILE.toml                                  name, command, unit, direction, and pattern for a number to extract
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from prologue_bench.errors import BenchError
from prologue_bench.results.fields import Fields, read_file
from prologue_bench.results.model import Workload
from prologue_bench.results.store import decode_workload

_SECONDS: Final = r"\([0-9][0-9]*\.[0-9]*\)"
_NUMBER: Final = re.compile(r"[1-9][0-9]*")
FORMS: Final = "hackbench:..., perf-messaging:..., kernel-build:TREE, time:COMMAND, FILE.toml or boot (qemu)"
# No script can run it: the machine that is to measure it has not booted yet.
BOOT: Final = Workload("boot", "boot", "seconds", "lower")


def parse_workload(text: str) -> Workload:
    """Parse one ``--workload``.

    Raises:
        BenchError: it is none of the forms above, with the part that is wrong.

    """
    kind, colon, rest = text.partition(":")
    if colon and kind in _PARSERS:
        return _PARSERS[kind](text, rest)
    if text.endswith(".toml"):
        return _from_file(Path(text))
    raise BenchError(f"workload {text!r}: unknown; expected {FORMS}")


def parse_workloads(texts: Sequence[str], *, boot: bool = False) -> tuple[Workload, ...]:
    """Parse all; the same one twice is refused, and ``boot`` if it cannot be measured."""
    if "boot" in texts and not boot:
        raise BenchError("workload 'boot': a boot is measured by --target qemu only, and counted by icount without it")
    workloads = tuple(BOOT if text == "boot" else parse_workload(text) for text in texts)
    names = [workload.name for workload in workloads]
    for name in names:
        if names.count(name) > 1:
            raise BenchError(f"workload {name!r} is named twice")
    return workloads


def _hackbench(text: str, spec: str) -> Workload:
    modes, numbers = _options(text, spec, {"g": "10", "l": "100"}, ("g", "l", "f", "s"))
    flags = [f"-{name} {value}" for name, value in numbers.items()]
    flags.append("-T" if "thread" in modes else "-P")
    if "pipes" in modes:
        flags.append("-p")
    return _seconds(_name("hackbench", modes, numbers), f"hackbench {' '.join(flags)}", f"^Time: *{_SECONDS}")


def _messaging(text: str, spec: str) -> Workload:
    modes, numbers = _options(text, spec, {"g": "10", "l": "100"}, ("g", "l"))
    flags = [f"-{name} {value}" for name, value in numbers.items()]
    flags += ["-t"] if "thread" in modes else []
    flags += ["-p"] if "pipes" in modes else []
    command = f"perf bench sched messaging {' '.join(flags)}"
    return _seconds(_name("perf messaging", modes, numbers), command, f"Total time: *{_SECONDS}")


def _kernel_build(text: str, spec: str) -> Workload:
    tree, *options = spec.split(",")
    if not tree:
        raise BenchError(f"workload {text!r}: which tree? kernel-build:TREE[,j=N][,config=NAME]")
    settings = {"j": "", "config": "defconfig"}
    for option in options:
        name, _, value = option.partition("=")
        if name not in settings or not value or (name == "j" and not value.isdecimal()):
            raise BenchError(f"workload {text!r}: {option!r} is not one of j=N, config=NAME")
        settings[name] = value
    make, jobs = f"make -C {shlex.quote(tree)}", settings["j"] or "$(nproc)"
    # Only the build is timed, by a clock that cannot be set: 10 ms are little of it. A host that builds kernels has bc.
    command = (
        f"{make} mrproper {shlex.quote(settings['config'])} >/dev/null && read begin idle </proc/uptime && "
        f"{make} -j{jobs} vmlinux >/dev/null && read end idle </proc/uptime && "
        'echo built in $(echo "$end - $begin" | bc)'
    )
    return _seconds(f"kernel build, {settings['config']}, -j{settings['j'] or ' all CPUs'}", command,
                    r"^built in \([0-9]*\.[0-9]*\)")  # fmt: skip


def _time(text: str, command: str) -> Workload:
    if not command.strip():
        raise BenchError(f"workload {text!r}: which command? time:COMMAND")
    return _seconds(command.strip(), command.strip(), None)


_PARSERS: Final[dict[str, Callable[[str, str], Workload]]] = {
    "hackbench": _hackbench,
    "perf-messaging": _messaging,
    "kernel-build": _kernel_build,
    "time": _time,
}


def _seconds(name: str, command: str, pattern: str | None) -> Workload:
    return Workload(name, command, "seconds", "lower", pattern=pattern)


def _options(text: str, spec: str, defaults: dict[str, str], known: tuple[str, ...]) -> tuple[set[str], dict[str, str]]:
    """Parse the modes (``thread``, ``pipes`` ...) and the numbers of a messaging benchmark."""
    modes: set[str] = set()
    numbers = dict(defaults)
    for option in filter(None, spec.split(",")):
        name, equals, value = option.partition("=")
        if not equals and name in ("process", "thread", "sockets", "pipes"):
            modes.add(name)
        elif name in known and _NUMBER.fullmatch(value):
            numbers[name] = value
        else:
            expected = ", ".join(("process", "thread", "sockets", "pipes", *(f"{name}=N" for name in known)))
            raise BenchError(f"workload {text!r}: {option!r} is not one of {expected}")
    for pair in ({"process", "thread"}, {"sockets", "pipes"}):
        if pair <= modes:
            raise BenchError(f"workload {text!r}: both {' and '.join(sorted(pair))}")
    return modes, numbers


def _name(program: str, modes: set[str], numbers: dict[str, str]) -> str:
    tasks = "threads" if "thread" in modes else "processes"
    channel = "pipes" if "pipes" in modes else "sockets"
    return f"{program} {' '.join(f'{name}={value}' for name, value in numbers.items())}, {tasks}, {channel}"


def _from_file(path: Path) -> Workload:
    content = read_file(path)
    try:
        data: dict[str, Any] = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BenchError(f"{path}: not TOML: {error}") from error
    fields = Fields.of({"pattern": None, **data}, str(path))
    known = ("name", "command", "unit", "direction", "pattern")
    if unknown := [name for name in data if name not in known]:
        raise BenchError(f"{path}: {unknown[0]}: is not one of {', '.join(known)}")
    if spoilt := [name for name, value in data.items() if "\0" in str(value)]:
        raise BenchError(f"{path}: {spoilt[0]}: a NUL ends what a shell can be given")
    pattern = fields.optional_text("pattern")
    if pattern is None and (fields.text("unit"), fields.text("direction")) != ("seconds", "lower"):
        raise BenchError(f"{path}: without a pattern the wall time is measured: unit seconds, direction lower")
    if pattern is not None and pattern.count(r"\(") != 1:
        raise BenchError(rf"{path}: pattern: expected one group \(...\) around the number, found {pattern!r}")
    return decode_workload(fields)
