"""Modules as each list of the kernel has them: one that one list has and another lacks is hidden.

The list ``modules`` is what /proc/modules and kallsyms show. ``mod_tree`` finds the module of an address, and the
kobjects of ``module_kset`` are the directories of /sys/module. ftrace has records of a module's functions.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.arrays import U64
from prologue.live.audit.ftrace_lists import all_records
from prologue.live.hooks.modules import ListedModule, in_tree, read_module, with_kobject
from prologue.live.hooks.objects import NotKnownError, Objects
from prologue.live.hooks.owners import Owners
from prologue.words import counted

_APART = np.uint64(1 << 16)  # bytes between records that are those of different modules


def find_unlisted(objects: Objects, modules: tuple[ListedModule, ...]) -> tuple[ListedModule, ...]:
    """Modules in ``mod_tree`` or with a kobject that the list lacks; errors as ``Objects.read``."""
    known = {module.place for module in modules}
    found: dict[int, ListedModule] = {}
    for read in (in_tree, with_kobject):
        try:
            places = tuple(read(objects))
        except NotKnownError:
            continue
        for place in places:
            if place not in known and place not in found:
                found[place] = read_module(objects, place)
    return tuple(found.values())


def hidden_modules(objects: Objects, owners: Owners, unlisted: tuple[ListedModule, ...]) -> Iterator[tuple[int, str]]:
    """Address and what contradicts, for each module that a list has and another lacks.

    Raises:
        NotKnownError: a list cannot be read.

    """
    tree, named = set(in_tree(objects)), with_kobject(objects)
    for module in unlisted:
        having = [name for name, places in (("mod_tree", tree), ("/sys/module", set(named))) if module.place in places]
        yield _start(module), f"module {module.name} is in {' and '.join(having)}, and not in the list of modules"
    for module in owners.modules:
        # What is being loaded or unloaded is in some lists already, or still.
        if module.state != "live":
            continue
        if module.place not in tree:
            yield _start(module), f"module {module.name} is in the list of modules, and not in mod_tree"
        if module.place not in named:
            yield _start(module), f"module {module.name} is in the list of modules, and has no kobject in /sys/module"
    yield from _recorded(objects, owners)


def _start(module: ListedModule) -> int:
    return module.text[0].start if module.text else module.place


def _recorded(objects: Objects, owners: Owners) -> Iterator[tuple[int, str]]:
    """Records of ftrace outside of the kernel and of every listed module."""
    records = all_records(objects.variables)
    if records is None:
        raise NotKnownError("ftrace's records cannot be read")
    low, high = objects.place("_stext"), objects.place("_end")
    places = records.places[(records.places != 0) & ((records.places < low) | (records.places >= high))]
    for module in owners.modules:
        for part in module.memory:
            places = places[(places < np.uint64(part.start)) | (places >= np.uint64(part.stop))]
    for group in _groups(places):
        first, last = int(group[0]), int(group[-1])
        count = counted(len(group), "function")
        yield first, f"ftrace has records of {count} from {first:#x} to {last:#x}, where no listed module is"


def _groups(places: U64) -> list[U64]:
    if not len(places):
        return []
    return np.split(places, np.flatnonzero(np.diff(places) > _APART) + 1)
