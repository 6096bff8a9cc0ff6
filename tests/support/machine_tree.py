"""A made-up machine's /proc and /sys, for the recorder's script to look at."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.needs import missing

STEXT: Final = 0xFFFF8000081B0000
VMALLOC: Final = 0xFFFF800008000000
KCORE_TEXT: Final = 0x7000  # where the made-up kcore has VMALLOC: not page 0, so that offsets matter
MOV: Final = 0xAA1E03E9
NOP: Final = 0xD503201F
BUILD_ID: Final = "4ac23d58ea912fbd7a16a1352646a2b5216a4bf3"
PLAIN: Final = {
    "proc/sys/kernel/random/boot_id": "0f7b223f-111d-4276-9ff1-e91128499938\n",
    "proc/sys/kernel/tainted": "0\n",
    "proc/loadavg": "0.05 0.10 0.15 1/80 123\n",
    "proc/meminfo": "MemTotal:        4005176 kB\nMemFree: 12 kB\n",
    "proc/self/status": "Name:\tsed\nCpus_allowed_list:\t0-3\n",
    "proc/device-tree/model": "Some Board 4 \\ \"B\"\0",
    "proc/device-tree/compatible": "maker,board\0maker,chip\0",
    "sys/devices/system/cpu/online": "0-3\n",
    **{f"sys/devices/system/cpu/cpu{k}/regs/identification/midr_el1": f"0x00000000{midr}\n"
       for k, midr in enumerate(("410fd034", "410fd034", "410fd034", "411fd072"))},
    "sys/class/thermal/thermal_zone0/temp": "51234\n",
    "sys/class/thermal/thermal_zone1/temp": "48000\n",
    "sys/class/thermal/cooling_device0/type": "pwm-fan\n",
    "sys/class/thermal/cooling_device0/cur_state": "4\n",
    "sys/class/thermal/cooling_device1/type": "cpufreq-cpu0\n",
    "sys/class/thermal/cooling_device1/cur_state": "0\n",
}  # fmt: skip


def make_tree(root: Path, more: Mapping[str, str | bytes] | None = None) -> Path:
    """Write the plain machine, and more files by path."""
    for name, content in {**PLAIN, "sys/kernel/notes": notes(), **(more or {})}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if not (root / "proc/uptime").exists():
        (root / "proc/uptime").symlink_to("/proc/uptime")  # time must pass
    for k in (0, 2):
        policy(root, k, "schedutil")
    return root


def policy(root: Path, number: int, governor: str) -> Path:
    path = root / f"sys/devices/system/cpu/cpufreq/policy{number}"
    path.mkdir(parents=True, exist_ok=True)
    values = {"scaling_governor": governor, "scaling_min_freq": "600000", "scaling_max_freq": "1500000",
              "cpuinfo_min_freq": "600000", "cpuinfo_max_freq": "1500000"}  # fmt: skip
    for name, value in values.items():
        (path / name).write_text(value + "\n")
    return path


def notes(build_id: str = BUILD_ID) -> bytes:
    """A note of another owner with odd sizes, then the build-id."""
    other = struct.pack("<III", 5, 3, 3) + b"LXYZ\0\0\0\0" + b"abc\0"
    gnu = bytes.fromhex(build_id)
    return other + struct.pack("<III", 4, len(gnu), 3) + b"GNU\0" + gnu


def kernel_files(words: Mapping[int, int]) -> dict[str, str | bytes]:
    """kallsyms and kcore of a kernel with these words at bytes from _stext."""
    text = bytearray(max(words, default=0) + 64)
    for offset, word in words.items():
        struct.pack_into("<I", text, offset, word)
    loads = [(0xFFFF000000000000, 0x5000, 0x1000), (VMALLOC, KCORE_TEXT, 0x7FBFFFFF0000)]
    headers = struct.pack("<IIQQQQQQ", 4, 0, 0x1C8, 0, 0, 0x200, 0, 0)
    for address, offset, size in loads:
        headers += struct.pack("<IIQQQQQQ", 1, 7, offset, address, 2**64 - 1, size, size, 4096)
    begin = b"\x7fELF\x02\x01\x01" + bytes(9)
    begin += struct.pack("<HHIQQQIHHHHHH", 4, 183, 1, 0, 64, 0, 0, 64, 56, 1 + len(loads), 0, 0, 0)
    head = (begin + headers).ljust(KCORE_TEXT, b"\xa5")
    body = bytes(STEXT - VMALLOC) + bytes(text)
    symbols = f"{STEXT - 0x10000:016x} T _text\n{STEXT:016x} T _stext\n{STEXT + 64:016x} t x_stext\n"
    return {"proc/kallsyms": symbols, "proc/kcore": head + body}


def shells() -> dict[str, list[str]]:
    """The shells that the script must run under."""
    return {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "ash"]}


def run_script(
    shell: str, text: str, root: Path, programs: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the script on a made-up machine; under busybox with its own tools and no others."""
    command = start(shell, text, programs)
    variables = {"PATH": path_of(shell, programs), "PROLOGUE_ROOT": str(root), **(environment or {})}
    return subprocess.run(
        command, env=variables, capture_output=True, text=True, errors="replace", timeout=600, check=False
    )


def start(shell: str, text: str, programs: Path) -> list[str]:
    """The command that runs the script; ``programs`` gets what it may use."""
    words = shells()[shell]
    found = shutil.which(words[0])
    if found is None:
        missing(words[0])
    programs.mkdir(exist_ok=True)
    script = programs / "record.sh"
    # The script adds the usual directories to PATH: here they must not count.
    script.write_text(text.replace(":/usr/sbin:/usr/bin:/sbin:/bin", ""), encoding="utf-8")
    if shell == "busybox" and not (programs / "sed").exists():
        for name in (
            "sh", "sed", "grep", "head", "tail", "tr", "cut", "od", "dd", "date", "uname", "sleep", "wc", "cat",
            "sha256sum",
        ):  # fmt: skip
            (programs / name).symlink_to(found)
    return [found, *words[1:], str(script)]


def path_of(shell: str, programs: Path) -> str:
    """Where commands are looked up; the test's own ``programs`` first."""
    return str(programs) if shell == "busybox" else f"{programs}:{os.environ['PATH']}"
