"""An audit with what is attached to the kernel: findings about listeners and owners beside those about words."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Final

from prologue.errors import InputError, Location
from prologue.live.audit.run import KERNEL, LIVE_RULES, Audit, look_at, mismatch_audit, with_findings
from prologue.live.hooks.inventory import Inventory, take_inventory
from prologue.live.hooks.judge import EVERY, HookCheck, HooksJudged, judge
from prologue.live.memory.capture import Capture
from prologue.live.system.own_text import AnotherKernelError
from prologue.live.system.running_kernel import RunningKernel
from prologue.live.system.running_system import RunningSystem
from prologue.releases import not_known
from prologue.rules.base import Finding, Rule

_DATA: Final = "PL512"  # read-only data, which no moment changes
REPORTED: Final = frozenset(code for _, code, _ in EVERY)
"""Codes of the rules whose findings only this makes."""
_OTHER_MOMENT: Final = "lists of a capture may be of different moments: a dump decides"
_NEVER_LOOKED_AT: Final = (
    "callbacks of other kinds (netfilter, LSM, notifiers, hrtimers, timers outside of dumps, struct_ops); "
    "hardware breakpoints of the kernel; "
    "read-only data of modules; of data that are read-only after init all except "
    "pointers that led to functions when they were linked"
)
_MASK: Final = (1 << 64) - 1
_TRIES: Final = 3


def audit(system: RunningSystem, rules: tuple[Rule, ...] = LIVE_RULES) -> Audit:
    """Judge the text of the kernel in memory and of its modules, and what is attached to the kernel.

    Raises:
        InputError: the vmlinux cannot be read or is stripped, or memory cannot be read.

    """
    try:
        return audit_with_hooks(look_at(system), rules)
    except AnotherKernelError as error:
        return mismatch_audit(system, error)


def audit_with_hooks(look: Audit, rules: tuple[Rule, ...], before: Audit | None = None) -> Audit:
    """Add findings, with those about hooks, to a look; ``before`` is an earlier look at the same boot."""
    done, kernel = with_findings(look, rules, before), look.kernel
    chosen = {rule.code: rule for rule in rules if rule.code in REPORTED}
    if not chosen or kernel is None:
        return done
    try:
        inventory, judged = read_hooks(kernel)
    except InputError as error:  # text that was read is judged all the same
        note = f"what is attached to the kernel: {error}"
        return replace(done, notes=(*done.notes, note), open_lists=1)
    not_read = tuple(dict.fromkeys((*inventory.not_known, *judged.not_known)))
    never = (_NEVER_LOOKED_AT,) if inventory.objects.has_types else ()
    unlooked = (*not_read, *never)
    notes = [f"what is attached to the kernel: {what}" for what in unlooked]
    findings, undecided = findings_of(inventory, judged, chosen, look.release)
    notes += undecided
    open_hooks = len(undecided)
    files = tuple(
        replace(file, findings=tuple(sorted([*file.findings, *findings], key=attrgetter("code"))))
        if file.name == KERNEL
        else file
        for file in done.files
    )
    open_lists = sum(gap.is_open for gap in not_read)
    return replace(done, files=files, notes=(*done.notes, *notes), open_hooks=open_hooks, open_lists=open_lists)


def findings_of(
    inventory: Inventory, judged: HooksJudged, rules: dict[str, Rule], release: str = ""
) -> tuple[list[Finding], list[str]]:
    """Return findings by the rules, which are given by their codes, and what is not decided on that kernel."""
    kernel = inventory.kernel
    why = next((reason for name in (kernel.release, release) if name and (reason := not_known(name))), "")
    findings: list[Finding] = []
    undecided: list[str] = []
    for code, hit in judged.suspects:
        rule = rules.get(code)
        open_why = why or ("" if code == _DATA else _why_moved(kernel, inventory))
        if rule is not None and open_why:
            undecided.append(f"{code} is not decided ({open_why}): {hit.message}")
        elif rule is not None:
            is_warning = code != _DATA and isinstance(kernel.memory, Capture)  # its lists are of different moments
            shown = replace(hit, message=f"{hit.message} ({_OTHER_MOMENT})", severity="warn") if is_warning else hit
            findings.append(rule.finding(str(kernel.path), _where(inventory, hit.vaddr), shown))
    return findings, undecided


def read_hooks(kernel: RunningKernel, checks: tuple[HookCheck, ...] = EVERY) -> tuple[Inventory, HooksJudged]:
    """Read and judge what is attached; on a running kernel again, while lists are being changed."""
    for _ in range(_TRIES):
        inventory = take_inventory(kernel)
        judged = _judged(kernel, inventory, checks)
        if not kernel.memory.live or not any(gap.is_open for gap in (*inventory.not_known, *judged.not_known)):
            break
    return inventory, judged


def _judged(kernel: RunningKernel, inventory: Inventory, checks: tuple[HookCheck, ...]) -> HooksJudged:
    """Judge hooks; on a running kernel, keep what is wrong in a second reading, too: lists change meanwhile."""
    judged = judge(inventory, checks)
    if not judged.suspects or not kernel.memory.live:
        return judged
    later = take_inventory(kernel)
    again = judge(later, checks)
    wrong = {(code, hit.vaddr) for code, hit in again.suspects}
    # What the second reading could not see does not acquit what the first one saw.
    return HooksJudged(
        tuple((code, hit) for code, hit in judged.suspects if (code, hit.vaddr) in wrong),
        (*judged.not_known, *later.not_known, *again.not_known),
    )


def _why_moved(kernel: RunningKernel, inventory: Inventory) -> str:
    """Say why lists of a capture contradict each other if nothing is wrong; empty if it was taken at rest."""
    memory = kernel.memory
    if not isinstance(memory, Capture):
        return ""
    if not memory.one_moment:
        return "text or lists were being changed while it was captured"
    began = {module.name for module in memory.state().modules}
    if began != {module.name for module in inventory.owners.modules}:
        return "modules were loaded or unloaded while it was captured"
    return ""


def _where(inventory: Inventory, vaddr: int) -> Location:
    """Return the place in the vmlinux, or the run-time address of what is outside of it."""
    kernel = inventory.kernel
    linked = vaddr - kernel.slide & _MASK
    if kernel.image.section_at(linked) is not None:
        return kernel.symbols.locate(linked)
    return Location(vaddr, symbol=inventory.owners.name(vaddr))
