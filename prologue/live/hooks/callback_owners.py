"""Callbacks that lead to code without an owner, of a kind that never listens there, or of a tainted module.

Also BPF programs that hide, and timers of the wheel. A callback has the prototype of its member, by BTF: kernels with
kCFI trap on any other, and those without would call it with arguments of another meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.live.hooks.areas import BPF
from prologue.live.hooks.inventory import Inventory
from prologue.live.hooks.listener import UNLISTED, Listener
from prologue.live.hooks.owners import KERNEL, KPROBES, Owners
from prologue.live.hooks.probe_hooks import misdirected_events
from prologue.live.memory.ranges import TOP
from prologue.live.structs.objects import NotKnownError, NotReadError, Objects
from prologue.rules.base import Hit
from prologue.words import counted

# What may be BPF's code: callbacks by the kind of the listener and their role, and the kind of the code.
_OF_BPF: Final = {
    ("BPF program", "program"): "program",
    ("direct call", "trampoline"): "trampoline",
    ("ftrace_ops", "direct call"): "trampoline",
}

# TAINT_FORCED_MODULE, TAINT_OOT_MODULE, TAINT_UNSIGNED_MODULE (include/linux/panic.h, 5.10-7.3).
_TAINTS: Final = {13: "unsigned", 12: "out-of-tree", 1: "loaded by force"}


def without_owner(inventory: Inventory) -> Iterator[Hit]:
    """Yield callbacks that no healthy kernel has: code without an owner, of another kind, or no function's beginning.

    Raises:
        NotKnownError: not all owners are known; or, after the others, that a BPF program is attached and not listed, or
            that code of BPF comes or goes, and that may be because lists were read one after the other.

    """
    owners = inventory.owners
    if not owners.complete:
        raise NotKnownError("not all owners of code are known")
    doubtful: list[str] = []
    for listener in sorted(inventory.listeners, key=lambda listener: listener.kind == "BPF program"):
        place = place_of_listener(listener)
        if is_hidden := _is_hidden_program(owners, listener):
            message = f"{called(listener)} runs there, and prog_idr, which bpftool shows, lacks it"
            if inventory.is_of_one_moment:
                yield Hit(place, message)
            else:
                doubtful.append(f"{message} ({owners.name(place)})")
        for role, vaddr in listener.callbacks:
            # No list has the code of a program that left them all.
            if not vaddr or (is_hidden and owners.memory_of_bpf(vaddr) is not None):
                continue
            if wrong := _wrong(inventory, listener, role, vaddr):
                message = f"{called(listener)}: its {role} is {owners.name(vaddr)}, {wrong}"
                yield Hit(place, message, (vaddr,))
            elif (part := owners.part(vaddr)) is not None and not part.current:
                doubtful.append(f"{called(listener)}: its {role} {owners.name(vaddr)} is on no list of BPF")
        # While a direct call is moved, an ftrace_ops for that has one (``__modify_ftrace_direct``).
        is_moving = inventory.objects.variables.is_held("direct_mutex")
        calls_directly = any(role == "direct call" for role, _ in listener.callbacks)
        if calls_directly and "DIRECT" not in listener.flags and not is_moving:
            yield Hit(place, f"{called(listener)} has a direct call, and is not DIRECT")
    for place, name, vaddr in misdirected_events(inventory.objects):
        message = f"the kprobe event {name} has the handler {owners.name(vaddr)}, which no event has"
        yield Hit(place, message, (vaddr,))
    if doubtful:
        raise NotReadError(f"{', '.join(doubtful)}: it hides, or was being loaded or unloaded")


def _wrong(inventory: Inventory, listener: Listener, role: str, vaddr: int) -> str:
    """Say what is wrong with a callback's code; empty if nothing is."""
    owners = inventory.owners
    owner, part = owners.of(vaddr), owners.part(vaddr)
    if owner is None:
        module = next((module for module in inventory.unlisted if module.has(vaddr)), None)
        return (
            f"which has no owner{f': in the module {module.name}, which the list of modules lacks' if module else ''}"
        )
    if owners.is_inside_function(vaddr):  # of a handler that was freed, something else may have the memory
        return "inside of a function"
    if owner == KERNEL:
        return misfit(inventory, listener, role, vaddr)
    if owner == KPROBES:
        return "a slot for the instruction under a kprobe, which nothing calls"
    of_bpf = _OF_BPF.get((listener.kind, role))
    if owner == BPF and part is not None and (part.kind != of_bpf or part.start != vaddr):
        return f"which is {part.kind} code of BPF: no {role} of this kind begins there"
    if owner != BPF and of_bpf == "program":
        return f"which is no code of BPF, and of {owner}"
    return ""


def place_of_listener(listener: Listener) -> int:
    """Return the first place where it listens; its own if it listens nowhere in particular."""
    return next(iter((*(listener.functions or ()), *(vaddr for vaddr, _ in listener.points))), listener.at)


def _is_hidden_program(owners: Owners, listener: Listener) -> bool:
    """Return whether a BPF program is attached, and not listed.

    What runs the programs of a cgroup at LSM's functions is of the kernel's own text, and never listed
    (``cgroup_shim_alloc``, kernel/bpf/trampoline.c, 6.0-7.3).
    """
    return (
        listener.kind == "BPF program"
        and UNLISTED in listener.flags
        and all(owners.of(vaddr) != KERNEL for _, vaddr in listener.callbacks)
    )


def called(listener: Listener) -> str:
    """Say what a listener is, and where it listens, for messages."""
    name = f" {listener.name}" if listener.name else ""
    if listener.functions is None:
        where = " of every traced function"
    elif len(listener.functions) > 1:
        where = f" of this and {counted(len(listener.functions) - 1, 'more function')}"
    elif listener.points:
        where = f" ({listener.way} {', '.join(point for _, point in listener.points)})"
    else:
        where = ""
    return f"{listener.kind}{name} at {listener.at:#x}{where}"


def of_tainted_modules(inventory: Inventory) -> Iterator[Hit]:
    """Yield listeners with code of a module that is unsigned, out of tree, or was loaded by force: one for each."""
    tainted = {
        module: words
        for module in inventory.owners.modules
        if (words := [word for bit, word in _TAINTS.items() if module.taints >> bit & 1])
    }
    for listener in inventory.listeners if tainted else ():
        for role, vaddr in listener.callbacks:
            module = next((each for each in tainted if any(vaddr in part for part in each.text)), None)
            if module is not None:
                why = f"of the module {module.name}, which is {' and '.join(tainted[module])}"
                message = f"{called(listener)}: its {role} is {inventory.owners.name(vaddr)}, {why}"
                yield Hit(place_of_listener(listener), message)
                break


# Members by the kind of a listener and the role of its callback; other callbacks are not compared.
_MEMBERS: Final = {
    ("ftrace_ops", "callback"): ("ftrace_ops", "func"),
    ("ftrace_ops", "pid filter"): ("ftrace_ops", "func"),
    ("kprobe", "handler"): ("kprobe", "pre_handler"),
    ("kprobe", "after"): ("kprobe", "post_handler"),
    ("kretprobe", "handler"): ("kretprobe", "handler"),
    ("kretprobe", "entry"): ("kretprobe", "entry_handler"),
    ("fprobe", "entry"): ("fprobe", "entry_handler"),
    ("fprobe", "exit"): ("fprobe", "exit_handler"),
    ("function graph", "entry"): ("fgraph_ops", "entryfunc"),
    ("function graph", "return"): ("fgraph_ops", "retfunc"),
}
_DIRECT: Final = frozenset({("direct call", "trampoline"), ("ftrace_ops", "direct call")})


def misfit(inventory: Inventory, listener: Listener, role: str, vaddr: int) -> str:
    """Say why a function of the kernel's own text cannot be that callback; empty if it can, or if BTF does not say."""
    btf = inventory.objects.btf
    if btf is None:
        return ""
    shapes = _shapes(inventory, vaddr)
    if not shapes:
        return ""
    if (listener.kind, role) in _DIRECT:
        return "a function of C: what is called directly has to keep the arguments of the traced function"
    if listener.kind == "tracepoint":
        wanted = btf.parameters(btf.typedef(f"btf_trace_{listener.name}"))
    else:
        member = _MEMBERS.get((listener.kind, role))
        wanted = None if member is None else btf.parameters(btf.member(*member))
    if wanted is None or any(_fits(wanted, shape) for shape in shapes):
        return ""
    return "a function with another prototype"


def _shapes(inventory: Inventory, vaddr: int) -> list[tuple[str, ...]]:
    """Return the parameters of every function that begins there; none if BTF lacks one of them, or has several.

    Identical functions may have been folded into one; functions of one name, one of which BTF has, are not known.
    """
    objects, kernel = inventory.objects, inventory.kernel
    shapes = []
    for name in kernel.symbols.names_at(vaddr - kernel.slide & (1 << 64) - 1):
        assert objects.btf is not None  # noqa: S101 - the caller has looked
        shape = objects.btf.parameters(objects.btf.function(name)) if objects.maybe_place(name) == vaddr else None
        if shape is None:
            return []
        shapes.append(shape)
    return shapes


def _fits(wanted: tuple[str, ...], shape: tuple[str, ...]) -> bool:
    """Return whether parameters are of the same kinds; a pointer to no struct stands for any pointer."""
    return len(wanted) == len(shape) and all(
        want == have or (want[:1] == have[:1] == "*" and "*" in (want, have))
        for want, have in zip(wanted, shape, strict=True)
    )


def timers(objects: Objects) -> Iterator[tuple[int, int]]:
    """Yield every ``timer_list`` that is pending, and its function; errors as ``Objects.read``."""
    if not objects.has("timer_bases"):
        return
    bases, each = objects.place("timer_bases"), objects.size("timer_base")
    vectors = objects.offset("timer_base.vectors")
    for cpu_offset in objects.slots("__per_cpu_offset")[: objects.variable("nr_cpu_ids", 4)]:
        first = bases + objects.number(cpu_offset) & TOP
        for base in range(first, first + objects.variables.size("timer_bases"), each):
            heads = np.frombuffer(objects.read(base + vectors, (each - vectors) // 8 * 8), "<u8")
            for k in np.flatnonzero(heads).tolist():
                for timer in objects.hash_entries(base + vectors + 8 * k, "timer_list.entry"):
                    yield timer, objects.get(timer, "timer_list.function")


def timers_without_owner(inventory: Inventory) -> Iterator[Hit]:
    """Yield timers that call code without an owner, or code that only BPF or a kprobe executes; of dumps alone.

    Raises:
        NotKnownError: not all owners are known, or a list cannot be read.

    """
    if not inventory.is_of_one_moment:
        return
    owners = inventory.owners
    if not owners.complete:
        raise NotKnownError("not all owners of code are known")
    for timer, function in timers(inventory.objects):
        owner = owners.of(function)
        if owner is None or owner in (BPF, KPROBES):
            whose = "which has no owner" if owner is None else f"code of {owner}, which no timer calls"
            yield Hit(timer, f"the timer at {timer:#x} calls {owners.name(function)}, {whose}", (function,))
