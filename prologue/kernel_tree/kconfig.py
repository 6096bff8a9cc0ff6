"""Explains why a kernel configuration does not select the option."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

from prologue.kernel_tree.source import OPTION

IN_SORTTABLE: Final = "ARM64_FTRACE_SORTTABLE_PROLOGUE"
_CLANG_21: Final = 210000  # CONFIG_CLANG_VERSION


def why_not_selected(config: str, kconfig: str, path: Path) -> tuple[str, str] | None:
    """Say what is wrong with the ``.config`` at ``path``, and what to do; None if it selects the option.

    ``kconfig`` is the file that declares the option: it says what the option depends on.
    """
    values = dict(re.findall(r"(?m)^CONFIG_(\w+)=(.*)$", config))
    if values.get(OPTION) == "y":
        return None
    if values.get("ARM64") != "y":
        return "CONFIG_ARM64 is off, so this is no configuration of arm64", "configure with make ARCH=arm64"
    if values.get("CPU_BIG_ENDIAN") == "y":
        return "CONFIG_CPU_BIG_ENDIAN is on", "build a little-endian kernel: turn on CONFIG_CPU_LITTLE_ENDIAN"
    if values.get("DYNAMIC_FTRACE") != "y":
        return "CONFIG_DYNAMIC_FTRACE is off", "turn on CONFIG_FUNCTION_TRACER and CONFIG_DYNAMIC_FTRACE"
    if unmet := [name for name in _needed(kconfig) if values.get(name, "n") == "n"]:
        return (
            f"CONFIG_{unmet[0]} is off, which it needs",
            f"find out what CONFIG_{unmet[0]} needs (make menuconfig, /)",
        )
    if re.search(rf"(?m)^# CONFIG_{OPTION} is not set$", config):
        return "it is not selected", f"make menuconfig, or scripts/config --file {shlex.quote(str(path))} -e {OPTION}"
    return "this configuration is older than the patch", f"make oldconfig, and say y to {OPTION}"


def has_step_in_sorttable(config: str) -> bool:
    """Return whether the kernel's own scripts/sorttable does the step, so that the build needs no tool."""
    return bool(re.search(rf"(?m)^CONFIG_{IN_SORTTABLE}=y$", config))


def leaves_landing_pads_out(config: str) -> bool:
    """Return whether ``ftrace_call_adjust`` of this kernel meets functions without BTI, and looks at the word.

    That needs landing pads, CALL_OPS, and a Clang that leaves them out of static functions whose address is not taken:
    21 and later (arch/arm64/Kconfig of 7.2.13 forbids ARM64_BTI_KERNEL then, that of 6.12.107 does not).
    """
    values = dict(re.findall(r"(?m)^CONFIG_(\w+)=(.*)$", config))
    wanted = ("ARM64_BTI_KERNEL", "DYNAMIC_FTRACE_WITH_CALL_OPS")
    clang = re.fullmatch(r"[0-9]{1,9}", values.get("CLANG_VERSION", ""))
    return all(values.get(name) == "y" for name in wanted) and clang is not None and int(clang[0]) >= _CLANG_21


def _needed(kconfig: str) -> list[str]:
    """Return the symbols that the option depends on; alternatives and negations are left to Kconfig."""
    _, _, after = kconfig.partition(f"\nconfig {OPTION}\n")
    entry = re.split(r"(?m)^\w", after)[0]
    terms = [term.strip() for line in re.findall(r"(?m)^\s+depends on (.*)$", entry) for term in line.split("&&")]
    return [term for term in terms if re.fullmatch(r"[A-Z0-9_]+", term)]
