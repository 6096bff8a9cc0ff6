"""Callbacks that lead to code without an owner, and BPF programs that hide."""

from __future__ import annotations

from collections.abc import Iterator

from prologue.live.hooks.executable import areas, areas_of_bpf
from prologue.live.hooks.inventory import Inventory, Suspect
from prologue.live.hooks.listener import UNLISTED, Listener
from prologue.live.hooks.objects import NotKnownError, NotReadError
from prologue.live.hooks.owners import KERNEL, Owners
from prologue.live.memory.base import Memory
from prologue.live.memory.capture import Capture
from prologue.words import counted


def without_owner(inventory: Inventory) -> Iterator[Suspect]:
    """Yield callbacks that lead to code without an owner, or into the middle of a function.

    Raises:
        NotKnownError: not all owners are known; or, after the others, where BPF has code; or that a BPF program is
            attached and not listed, and that may be because lists were read one after the other.

    """
    owners = inventory.owners
    if not owners.complete:
        raise NotKnownError("not all owners of code are known")
    doubtful: list[str] = []
    for listener in sorted(inventory.listeners, key=lambda listener: listener.kind == "BPF program"):
        place = _place(listener)
        if _is_hidden_program(owners, listener):
            message = f"{_called(listener)} runs there, and prog_idr, which bpftool shows, lacks it"
            if _is_of_one_moment(inventory.kernel.memory):
                yield Suspect("owner", place, message)
            else:
                doubtful.append(f"{message} ({owners.name(place)})")
        for role, vaddr in listener.callbacks:
            if not vaddr:
                continue
            owner = owners.of(vaddr)
            if owner is None and not (listener.kind == "BPF program" and _is_of_bpf(inventory, vaddr)):
                wrong = f"which has no owner{_whose(inventory, vaddr)}"
            elif owners.is_inside_function(vaddr):  # of a handler that was freed, something else may have the memory
                wrong = "inside of a function"
            else:
                continue
            message = f"{_called(listener)}: its {role} is {owners.name(vaddr)}, {wrong}"
            yield Suspect("owner", place, message, (vaddr,))
    if doubtful:
        raise NotReadError(f"{', '.join(doubtful)}: it hides, or was being loaded or unloaded")


def _place(listener: Listener) -> int:
    """Return the first place where it listens; its own if it listens nowhere in particular."""
    return next(iter((*(listener.functions or ()), *(vaddr for vaddr, _ in listener.points))), listener.at)


def _is_of_one_moment(memory: Memory) -> bool:
    """Return whether nothing can have changed while the lists were read: of what runs, programs come and go."""
    return not memory.live and not isinstance(memory, Capture)


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


def _is_of_bpf(inventory: Inventory, vaddr: int) -> bool:
    """Return whether BPF got the memory: programs of users without CAP_BPF are not in kallsyms."""
    objects, owners = inventory.objects, inventory.owners
    return any(area.start <= vaddr < area.end for area in areas_of_bpf(objects, owners, list(areas(objects))))


def _called(listener: Listener) -> str:
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


def _whose(inventory: Inventory, vaddr: int) -> str:
    module = next((module for module in inventory.unlisted if module.has(vaddr)), None)
    return f": in the module {module.name}, which the list of modules lacks" if module else ""
