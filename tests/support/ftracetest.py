"""What the kernel's ftracetest needs in a guest to run the self-test of the prologues."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

TEST: Final = "test.d/ftrace/func_arm64_prologue.tc"


def needed(tree: Path) -> dict[str, bytes]:
    """Names below ``ftrace/`` and contents: the tree's own runner, and our test as it is today.

    A tree from the cache may have our test as it was when the tree was made: no kernel is built again for it.
    """
    room = tree / "tools/testing/selftests/ftrace"
    runner = {name: (room / name).read_bytes() for name in ("ftracetest", "test.d/functions")}
    return runner | {TEST: files("prologue.kernel_tree").joinpath(Path(TEST).name).read_bytes()}
