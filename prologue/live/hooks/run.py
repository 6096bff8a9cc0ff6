"""Judges what is attached to a kernel: callbacks' owners, hidden modules, executable memory; and audits with that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Final, NamedTuple

from prologue.errors import InputError, Location
from prologue.live.audit.compare import transitions_of
from prologue.live.audit.outcome import KERNEL, Audit
from prologue.live.audit.run import LIVE_RULES, look_at, mismatch_audit, with_findings
from prologue.live.hooks.callback_owners import of_tainted_modules, timers_without_owner, without_owner
from prologue.live.hooks.contents import foreign_code
from prologue.live.hooks.executable import unowned
from prologue.live.hooks.ftrace_views import disputed_direct_calls, miscounted
from prologue.live.hooks.hidden import hidden_modules, hidden_patches
from prologue.live.hooks.inventory import Inventory, take_inventory
from prologue.live.hooks.readonly import changed_data
from prologue.live.memory.capture import Capture
from prologue.live.memory.ranges import TOP
from prologue.live.structs.objects import NotKnown, noted
from prologue.live.system.running_kernel import RunningKernel
from prologue.live.system.running_system import RunningSystem
from prologue.live.system.running_text import AnotherKernelError
from prologue.releases import not_known
from prologue.rules.base import Finding, Hit, Rule


class HooksJudged(NamedTuple):
    """Suspects, each by the code of its rule and at a run-time address, and what could not be judged."""

    suspects: tuple[tuple[str, Hit], ...]
    not_known: tuple[NotKnown, ...]


HookCheck = tuple[str, str, Callable[[Inventory], Iterator[Hit]]]
OF_LISTENERS: Final[tuple[HookCheck, ...]] = (
    ("owners of callbacks", "PL509", without_owner),
    ("users of functions", "PL514", miscounted),
    ("direct calls", "PL514", disputed_direct_calls),
    ("hidden livepatches", "PL510", hidden_patches),
    ("modules of callbacks", "PL515", of_tainted_modules),
)
"""Checks of what an inventory lists."""
OF_LISTS: Final[tuple[HookCheck, ...]] = (
    *OF_LISTENERS,
    ("hidden modules", "PL510", hidden_modules),
    ("executable memory", "PL511", unowned),
    ("code of BPF and kprobes", "PL511", foreign_code),
)
"""Checks that a capture takes the memory of along."""
EVERY: Final[tuple[HookCheck, ...]] = (
    *OF_LISTS,
    ("timers", "PL509", timers_without_owner),
    ("read-only data", "PL512", changed_data),
)
"""All checks."""


def judge(inventory: Inventory, checks: tuple[HookCheck, ...] = EVERY) -> HooksJudged:
    """Run checks; one that cannot be made is named."""
    suspects: list[tuple[str, Hit]] = []
    not_known: list[NotKnown] = []
    for what, code, check in checks:
        with noted(not_known, what):
            suspects.extend((code, hit) for hit in check(inventory))  # what it finds before it fails counts
    return HooksJudged(tuple(suspects), tuple(not_known))


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
_TRIES: Final = 3


def audit(system: RunningSystem, rules: tuple[Rule, ...] = LIVE_RULES, *, since: RunningSystem | None = None) -> Audit:
    """Judge the text of the kernel in memory and of its modules, and what is attached to the kernel.

    With ``since``, an earlier memory of the same boot, judge that, too, and the changes between the two.

    Raises:
        InputError: the vmlinux cannot be read or is stripped, memory cannot be read, or they are of two boots.

    """
    looks: list[Audit] = []
    for each in (system,) if since is None else (since, system):
        try:
            looks.append(look_at(each))
        except AnotherKernelError as error:
            return mismatch_audit(each, error)
    if since is None:
        return _with_hooks(looks[0], rules)
    old, new = looks
    transitions, notes = transitions_of(old, new)
    done = _with_hooks(new, rules, old)
    return replace(done, before=_with_hooks(old, rules), transitions=transitions, notes=(*done.notes, *notes))


def _with_hooks(look: Audit, rules: tuple[Rule, ...], before: Audit | None = None) -> Audit:
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
    linked = vaddr - kernel.slide & TOP
    if kernel.image.section_at(linked) is not None:
        return kernel.symbols.locate(linked)
    return Location(vaddr, symbol=inventory.owners.name(vaddr))
