"""QEMU under icount, one CPU, nothing random: runs of one Image execute the same instructions, and plugins count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prologue.documents import parse_json
from prologue_bench.errors import GuestLostError
from prologue_bench.exact.build import build_plugin
from prologue_bench.guest.vm import Machine, qemu_value, run_console
from prologue_bench.host.events import WITH_TRACE, console_end

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

ONE_CPU: Final = Machine(cpus=1, accel="tcg,thread=single")
# The same time, the same random numbers (device tree, RNDR) in every run; a guest that waits does not wait for us.
_SAME: Final = (
    "-icount", "shift=0,sleep=off", "-rtc", "base=2020-01-01T00:00:00,clock=vm", "-seed", "1",
)  # fmt: skip
# The kernel's self-tests of its crypto draw keys from the timer's bits: deterministic, but tens of millions of
# instructions more or less when anything before them takes one tick longer.
_COMMAND_LINE: Final = "console=ttyAMA0 loglevel=4 panic=-1 cryptomgr.notests"


def command_line(append: str, *, kaslr: bool) -> str:
    """Return the kernel's command line. With KASLR, it moves by the same distance in every run: the seed is QEMU's."""
    return " ".join(word for word in (_COMMAND_LINE, "" if kaslr else "nokaslr", append) if word)


def boot_command(
    image: Path, initramfs: Path, machine: Machine, append: str, *, kaslr: bool = False
) -> list[str]:  # fmt: skip
    """Return QEMU's command line for a boot on one CPU with nothing random in it."""
    one_cpu = replace(machine, cpus=1, accel=ONE_CPU.accel)
    return one_cpu.command(image, initramfs, command_line(append, kaslr=kaslr))


def plugin_option(name: str, numbers: Mapping[str, int], classes: Path, out: Path) -> tuple[str, str]:
    """Return QEMU's words that load a plugin of ours; its arguments are described in its source."""
    paths = [qemu_value(path) for path in (build_plugin(name), classes, out)]
    arguments = [f"{argument}={value:#x}" for argument, value in numbers.items()]
    return "-plugin", ",".join((paths[0], *arguments, f"classes={paths[1]}", f"out={paths[2]}"))


def run_plugin(
    command: list[str],
    numbers: dict[str, int],
    classes: npt.NDArray[np.uint8],
    *,
    stem: Path,
    timeout: float,
) -> dict[str, Any]:
    """Run a QEMU command under icount with ``plugin/count.c`` and return what it wrote.

    ``numbers`` are the plugin's arguments; files that begin with ``stem`` are made.

    Raises:
        GuestLostError: ``stop`` was never reached.

    """
    table, out, log = (stem.with_name(stem.name + suffix) for suffix in (".classes", ".json", ".log"))
    out.unlink(missing_ok=True)
    option = plugin_option("count", numbers, table, out)
    try:
        table.write_bytes(classes.tobytes())
        lines, seconds, ended = run_console([*command, *_SAME, *option], log, timeout)
    finally:
        table.unlink(missing_ok=True)
    result: dict[str, Any] | None = parse_json(out.read_text()) if out.exists() else None
    if result is None or result["places"]["stop"] is None:
        end = f"the machine ended after {seconds:.0f} s" if ended else f"stopped after {timeout:.0f} s"
        seen = [name for name, place in (result or {"places": {}})["places"].items() if place is not None]
        reached = f", reached only {', '.join(seen)}" if seen else ""
        raise GuestLostError(f"init was never reached: {end}{reached}; {console_end(lines, log, WITH_TRACE)}")
    return result
