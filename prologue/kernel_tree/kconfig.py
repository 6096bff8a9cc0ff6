"""Why a kernel configuration does not select the option."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from prologue.kernel_tree.source import OPTION


def why_not_selected(config: str, kconfig: str, path: Path) -> tuple[str, str] | None:
    """What is wrong with the ``.config`` at ``path``, and what to do; None if it selects the option.

    ``kconfig`` is the file that declares the option: it says what the option depends on.
    """
    values = dict(re.findall(r"(?m)^CONFIG_(\w+)=(.*)$", config))
    if values.get(OPTION) == "y":
        return None
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


def _needed(kconfig: str) -> list[str]:
    """The symbols that the option depends on; alternatives and negations are left to Kconfig."""
    _, _, after = kconfig.partition(f"\nconfig {OPTION}\n")
    entry = re.split(r"(?m)^\w", after)[0]
    terms = [term.strip() for line in re.findall(r"(?m)^\s+depends on (.*)$", entry) for term in line.split("&&")]
    return [term for term in terms if re.fullmatch(r"[A-Z0-9_]+", term)]
