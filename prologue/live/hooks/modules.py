"""Modules as each list of the kernel has them.

``struct module`` and ``module_memory``: include/linux/module.h; ``mod_tree``: kernel/module/{internal.h,tree_lookup.c};
``module_kset``: kernel/params.c (5.10-7.3). A module has up to seven pieces of memory since 6.4, and before that one
for what stays, of which text is the first part, and one for init.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from prologue.elf.symbols import SHN_UNDEF, STT_FUNC, SYM
from prologue.live.memory.ranges import KERNEL_HALF
from prologue.live.structs.objects import NotKnownError, NotReadError, Objects

_NAME: Final = 56  # MODULE_NAME_LEN (64-bit kernels)
_MEMORIES: Final = 7  # MOD_MEM_NUM_TYPES (6.4-7.3)
_TEXT, _INIT_TEXT = 0, 4  # MOD_TEXT, MOD_INIT_TEXT
_KIND = 15  # of st_info
_STATES: Final = ("live", "coming", "going", "unformed")  # enum module_state


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedModule:
    """A module: where its struct is, its text (of init, too, until that is freed), and all of its memory.

    ``taints`` is a mask of its TAINT_* bits (include/linux/panic.h).
    """

    name: str
    place: int
    state: str
    text: tuple[range, ...]
    memory: tuple[range, ...]
    taints: int = 0

    def has(self, vaddr: int) -> bool:
        """Return whether any of its memory is there."""
        return any(vaddr in part for part in self.memory)


def read_module(objects: Objects, place: int) -> ListedModule:
    """Return the module whose struct is at ``place``; errors as ``Objects.read``."""
    name = objects.text(place + objects.offset("module.name"), _NAME)
    state = objects.get(place, "module.state", 4)
    text, memory = _memory(objects, place)
    state_name = _STATES[state] if state < len(_STATES) else f"state {state}"
    taints = objects.get(place, "module.taints") if objects.knows("module.taints") else 0
    return ListedModule(name=name, place=place, state=state_name, text=text, memory=memory, taints=taints)


def _memory(objects: Objects, place: int) -> tuple[tuple[range, ...], tuple[range, ...]]:
    if objects.knows("module.mem"):
        start, each = place + objects.offset("module.mem"), objects.size("module_memory")
        parts = [_part(objects, start + each * k, "module_memory", "size") for k in range(_MEMORIES)]
        return tuple(part for part in (parts[_TEXT], parts[_INIT_TEXT]) if part), tuple(part for part in parts if part)
    layouts = [place + objects.offset(f"module.{name}") for name in ("core_layout", "init_layout")]
    text = [_part(objects, layout, "module_layout", "text_size") for layout in layouts]
    memory = [_part(objects, layout, "module_layout", "size") for layout in layouts]
    return tuple(part for part in text if part), tuple(part for part in memory if part)


def _part(objects: Objects, place: int, struct: str, size: str) -> range:
    base = objects.get(place, f"{struct}.base")
    end = base + (objects.get(place, f"{struct}.{size}", 4) if base else 0)
    if base and not KERNEL_HALF <= base <= end < 1 << 64:
        raise NotReadError(f"a module at {place:#x} whose memory would be {base:#x}-{end:#x}")
    return range(base, end)


def listed_modules(objects: Objects) -> tuple[ListedModule, ...]:
    """Return modules of the list ``modules``, which /proc/modules shows; errors as ``Objects.read``."""
    if not objects.has("modules") and not objects.knows("module.list"):
        return ()  # a kernel without CONFIG_MODULES
    return tuple(read_module(objects, place) for place in objects.entries(objects.place("modules"), "module.list"))


def in_tree(objects: Objects) -> tuple[int, ...]:
    """Return structs of modules in ``mod_tree``, by which the kernel finds the module of an address; ascending.

    It is two trees, of which one may be half changed at any time (include/linux/rbtree_latch.h).

    Raises:
        NotKnownError: neither can be followed.

    """
    if not objects.knows("mod_tree_root.root.tree"):
        raise NotKnownError("this kernel has no mod_tree, or no type says how it is laid out")
    root = objects.place("mod_tree") + objects.offset("mod_tree_root.root.tree")
    each, to_module = (
        objects.size("rb_node"),
        objects.offset("mod_tree_node.mod") - objects.offset("mod_tree_node.node"),
    )
    places: set[int] = set()
    errors: list[NotKnownError] = []
    for k in (0, 1):
        try:
            nodes = list(objects.tree_nodes(root + k * objects.size("rb_root")))
            places |= {objects.number(node - k * each + to_module) for node in nodes}
        except NotKnownError as error:
            errors.append(error)
    if len(errors) > 1:
        raise errors[0]
    return tuple(sorted(places))


def with_kobject(objects: Objects) -> Iterator[int]:
    """Yield modules that have a directory in /sys/module, by their structs; built-in code has none."""
    head = objects.variable("module_kset") + objects.offset("kset.list")
    for kobject in objects.entries(head, "kobject.entry"):
        if module := objects.get(kobject - objects.offset("module_kobject.kobj"), "module_kobject.mod"):
            yield module


def symbols_of(objects: Objects, module: ListedModule) -> Iterator[tuple[int, str, int]]:
    """Yield address, name and size of a module's functions and data, from its kallsyms; none if memory lacks them.

    The name of a function is empty if memory lacks it: another one's would be wrong.
    """
    try:
        place = objects.get(module.place, "module.kallsyms")
        count = objects.count(place, "mod_kallsyms.num_symtab") if place else 0
        table = np.frombuffer(objects.read(objects.get(place, "mod_kallsyms.symtab"), count * SYM.itemsize), SYM)
        strings = objects.get(place, "mod_kallsyms.strtab")
        for row in np.flatnonzero((table["shndx"] != SHN_UNDEF) & (table["name"] != 0)).tolist():
            name = objects.text(strings + int(table["name"][row]))
            is_function = int(table["info"][row]) & _KIND == STT_FUNC
            if (name or is_function) and not name.startswith("$"):
                yield int(table["value"][row]), name, int(table["size"][row])
    except NotKnownError:
        return


# ``free_module`` (kernel/module/main.c, 6.1-7.3) waits for RCU in between, with ``module_mutex``.
MODULES_CHANGE: Final = ("module_mutex", "a module was being loaded or unloaded")
"""A module that goes is on no list, and still in memory: ``Objects.require_rest``."""


def module_views(objects: Objects) -> tuple[list[tuple[str, tuple[int, ...]]], list[NotKnownError]]:
    """Return what else than the list has modules, with their structs' addresses; and which of it cannot be read."""
    views, unread = [], list[NotKnownError]()
    for name, read in (("mod_tree", in_tree), ("/sys/module", with_kobject)):
        try:
            views.append((name, tuple(read(objects))))
        except NotKnownError as error:
            unread.append(type(error)(f"{name}: {error}"))
    return views, unread


def find_unlisted(objects: Objects, modules: tuple[ListedModule, ...]) -> tuple[ListedModule, ...]:
    """Return modules in ``mod_tree`` or with a kobject that the list lacks; errors as ``Objects.read``."""
    known = {module.place for module in modules}
    places = dict.fromkeys(place for _, places in module_views(objects)[0] for place in places)
    return tuple(read_module(objects, place) for place in places if place not in known)
