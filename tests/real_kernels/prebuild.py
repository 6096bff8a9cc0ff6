"""Builds kernels in the background: most tests leave a CPU idle, and the first one that needs a kernel waits less."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from prologue_bench.errors import BenchError
from prologue_bench.host.child import end_with_parent
from tests.kernels.recipes import KERNELS, TESTED
from tests.real_kernels.native import RECIPES
from tests.support.debian.kbuild import build_kernel


def start(*, extended: bool) -> subprocess.Popen[bytes]:
    """Build what is not there yet, mostly with the time that nothing else on the machine wants.

    What only ``extended`` tests need waits for them.

    Not with that time alone (nice 19): where no kernel is cached, the last one was then built after all other tests.
    """
    command = ["nice", "-n", "5", sys.executable, "-m", "tests.real_kernels.prebuild", *(TESTED if extended else ())]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[2], start_new_session=True,
        preexec_fn=end_with_parent,  # noqa: PLW1509 - one prctl
    )  # fmt: skip


def stop(builder: subprocess.Popen[bytes]) -> None:
    """End it; what is half built is made again."""
    builder.terminate()
    builder.wait()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))  # its compilers, too
    for recipe in (*RECIPES.values(), *(KERNELS[name].recipe for name in sys.argv[1:])):
        with suppress(BenchError):  # the tests that need it will say what is wrong
            build_kernel(recipe)
