"""What an audit claims of ftrace's words in a mini kernel, with words and a state of ftrace that are made up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from prologue.kernel.kernel import Kernel
from prologue.kernel.sites import Sites
from prologue.live.audit.claims import Claims, Scene
from prologue.live.audit.ftrace import claim_ftrace
from prologue.live.audit.ftrace_state import Ops


def sites_of(vmlinux: Path) -> Sites:
    sites = Kernel(vmlinux).sites
    assert sites is not None
    return sites


def ftrace_claims(
    vmlinux: Path, words: Mapping[int, int], literals: Mapping[int, int], *, of_module: bool = False, **state: Any
) -> list[Claims]:
    """The claims, if these words and literals stand in its file; ``state`` is what is not at rest, and known."""
    image = Kernel(vmlinux).image
    content = {vaddr: word.to_bytes(4, "little") for vaddr, word in words.items()}
    content |= {vaddr: value.to_bytes(8, "little") for vaddr, value in literals.items()}
    with vmlinux.open("r+b") as stream:
        for vaddr, data in content.items():
            stream.seek(int(image.offsets(np.array([vaddr], np.uint64))[0]))
            stream.write(data)
    at_rest: dict[str, Any] = {
        "unstable": False, "text_unstable": False, "disabled": False, "sets_literals_late": False, "idle_ops": None,
        "list_ops": None, "trampolines": frozenset(), "ops": Ops(frozenset(), complete=True), "records": None,
        "may_be_leaving": lambda _: False, "is_code": lambda _: True, "direct_call": lambda _: None,
        "direct_targets": {},
    }  # fmt: skip
    kernel = Kernel(vmlinux)
    own = cast("Any", None) if of_module else kernel
    scene = Scene(binary=kernel, slide=0, variables=cast("Any", None), kernel=own, kernel_slide=0)
    return list(claim_ftrace(scene, cast("Any", SimpleNamespace(**(at_rest | state))), np.zeros(0, np.uint64)))
