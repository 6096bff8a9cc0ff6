"""The audit of a running kernel's own text: every word against the mechanism that owns it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from prologue.errors import InputError
from prologue.live.audit.alternatives import claim_alternatives
from prologue.live.audit.audited import Audited
from prologue.live.audit.breakpoints import Breakpoint, Breakpoints, find_breakpoints
from prologue.live.audit.claims import Claims, Scene
from prologue.live.audit.constants import claim_constants
from prologue.live.audit.ftrace import claim_ftrace
from prologue.live.audit.ftrace_state import FtraceState
from prologue.live.audit.judge import Describer, TextJudge
from prologue.live.audit.jump_labels import claim_jump_labels
from prologue.live.audit.literals import claim_literals
from prologue.live.audit.of_5_10 import claim_kpti_flag, claim_spectre_vectors
from prologue.live.audit.shadow_stacks import claim_shadow_stacks
from prologue.live.memory.base import Memory
from prologue.live.memory.capture import Capture
from prologue.live.memory.state import KernelState
from prologue.live.structs.variables import Variables
from prologue.live.system.running_kernel import LiveText, RunningKernel
from prologue.live.system.running_module import RunningModule
from prologue.releases import not_known

# Read with one question, for sources that answer slowly.
_NAMES: Final = (
    "applied_alternatives", "arm64_el2_vector_last_slot", "arch_ftrace_ops_list_func", "dynamic_scs_enabled",
    "ftrace_disabled", "ftrace_enabled", "ftrace_lock", "ftrace_ops_list", "all_alternatives_applied",
    "ftrace_graph_active", "ftrace_pages_start", "ftrace_trace_function", "jump_label_mutex", "kimage_voffset",
    "kprobe_table", "memstart_addr", "removed_ops", "saved_ftrace_func", "tag_lsb", "tag_val", "va_mask",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFacts:
    """Facts that are read from a kernel's memory once, for its own text and its modules'."""

    kernel: RunningKernel
    variables: Variables
    ftrace: FtraceState
    breakpoints: Breakpoints
    state: KernelState | None
    not_known: str = ""  # reason why no word of this kernel may be called wrong

    def scene(self, binary: RunningKernel | RunningModule, slide: int) -> Scene:
        """Make the scene in which the text of the kernel, or of a module, is judged."""
        return Scene(
            binary=binary, slide=slide, variables=self.variables, kernel=self.kernel, kernel_slide=self.kernel.slide,
            unstable=is_unstable(binary.memory, binary.live_text),
        )  # fmt: skip


def read_facts(kernel: RunningKernel, state: KernelState | None) -> KernelFacts:
    """Read tables and variables; ``state`` is the kernel's own account of itself, if it was asked.

    Raises:
        InputError: the file's records cannot be read.

    """
    _require_records(kernel)
    variables = Variables.of_kernel(kernel)
    variables.fetch_named(_NAMES)
    breakpoints = find_breakpoints(variables, state.kprobes if state else ())
    ftrace = FtraceState(kernel, variables, state, text_unstable=is_unstable(kernel.memory, kernel.live_text))
    return KernelFacts(
        kernel=kernel, variables=variables, ftrace=ftrace, breakpoints=breakpoints, state=state,
        not_known=_not_known(kernel),
    )  # fmt: skip


def _require_records(kernel: RunningKernel) -> None:
    """Refuse a kernel with ftrace whose sites are not known: none of them would be judged."""
    if kernel.bounds is None or kernel.records is not None:
        return
    problem, to_do = kernel.bounds.problem, "give the vmlinux as it was linked"
    if kernel.marker is not None and kernel.marker.writing:
        problem, to_do = "unfinished: an interrupted run of `prologue patch`", "run the same command again"
    raise InputError(f"{problem}; ftrace's records cannot be read: {to_do}", path=kernel.path)


def _not_known(kernel: RunningKernel) -> str:
    """Return the reason if the vmlinux or memory names a release that was never compared; otherwise empty."""
    named = [release for release in (kernel.release, kernel.memory.info.release) if release] or [""]
    return next((reason for release in named if (reason := not_known(release))), "")


def is_unstable(memory: Memory, text: LiveText) -> bool:
    """Return whether text and data may be of different moments."""
    if isinstance(memory, Capture) and not memory.one_moment:
        return True
    return any(section.unstable for section in text.live.values())


def audit_kernel(kernel: RunningKernel, facts: KernelFacts) -> Audited:
    """Judge the kernel's own text."""
    lifted = lift(kernel.live_text, kernel.slide, facts.breakpoints)
    judge = TextJudge(kernel.live_text, lifted, Describer(kernel, kernel.slide, facts.state), facts.not_known)
    return judge.judge(list(kernel_claims(kernel, facts)))


def kernel_claims(kernel: RunningKernel, facts: KernelFacts) -> Iterator[Claims]:
    """Yield the claims of each mechanism to the kernel's text, except breakpoints."""
    scene = facts.scene(kernel, kernel.slide)
    yield from claim_ftrace(scene, facts.ftrace, np.zeros(0, np.uint64))
    yield claim_alternatives(scene)
    yield claim_jump_labels(scene)
    yield from claim_constants(scene)
    yield from claim_literals(scene)
    yield from claim_shadow_stacks(scene)
    yield from claim_spectre_vectors(scene)
    yield from claim_kpti_flag(scene)


def lift(text: LiveText, slide: int, breakpoints: Breakpoints) -> dict[int, Breakpoint]:
    """Take breakpoints out of the text: put back the words they cover, or the linked ones if these are not known.

    If nothing lists the kprobes, every BRK of theirs may be one; so with kgdb.

    Returns:
        The breakpoints that were taken out, by address in the file.

    """
    lifted: dict[int, Breakpoint] = {}
    for point in breakpoints.at.values():
        vaddr = point.vaddr - slide & (1 << 64) - 1
        if text.lift(vaddr, point.brk, point.original):
            lifted[vaddr] = point
    for word in breakpoints.unlisted:
        for vaddr in text.places_of(word):
            text.lift(vaddr, word, None)
            lifted[vaddr] = Breakpoint(vaddr + slide & (1 << 64) - 1, word, None)
    return lifted
