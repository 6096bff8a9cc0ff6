"""Modules as each list of the kernel has them: one that one list has and another lacks is hidden.

The list ``modules`` is what /proc/modules and kallsyms show. ``mod_tree`` finds the module of an address, and the
kobjects of ``module_kset`` are the directories of /sys/module. ftrace has records of a module's functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np

from prologue.arrays import U64
from prologue.live.hooks.ftrace_hooks import read_records
from prologue.live.hooks.modules import ListedModule, in_tree, read_module, with_kobject
from prologue.live.hooks.objects import NotKnownError, NotReadError, Objects
from prologue.live.hooks.owners import Owners
from prologue.words import counted

# What else has a module, by the address of its struct.
_VIEWS: Final[tuple[tuple[str, Callable[[Objects], Iterable[int]]], ...]] = (
    ("mod_tree", in_tree),
    ("/sys/module", with_kobject),
)
_APART: Final = np.uint64(1 << 12)  # bytes between records that are those of different modules


def find_unlisted(objects: Objects, modules: tuple[ListedModule, ...]) -> tuple[ListedModule, ...]:
    """Return modules in ``mod_tree`` or with a kobject that the list lacks; errors as ``Objects.read``."""
    known = {module.place for module in modules}
    unlisted: dict[int, ListedModule] = {}
    for _, read in _VIEWS:
        try:
            places = tuple(read(objects))
        except NotKnownError:
            continue
        for place in places:
            if place not in known and place not in unlisted:
                unlisted[place] = read_module(objects, place)
    return tuple(unlisted.values())


def hidden_modules(objects: Objects, owners: Owners, unlisted: tuple[ListedModule, ...]) -> Iterator[tuple[int, str]]:
    """Yield address and what contradicts, for each module that a list has and another lacks.

    Raises:
        NotKnownError: after the others, that a list cannot be read.

    """
    views = []
    unread: list[NotKnownError] = []
    for name, read in _VIEWS:
        try:
            views.append((name, set(read(objects))))
        except NotKnownError as error:
            unread.append(type(error)(f"{name}: {error}"))
    for module in unlisted:
        having = " and ".join(name for name, places in views if module.place in places)
        if having:
            yield _start(module), f"module {module.name} is in {having}, and not in the list of modules"
    for module in owners.modules:
        # What is being loaded or unloaded is in some lists already, or still.
        for name, places in views if module.state == "live" else ():
            if module.place not in places:
                yield _start(module), f"module {module.name} is in the list of modules, and not in {name}"
    try:
        yield from _recorded(objects, owners)
    except NotKnownError as error:
        unread.append(error)
    if unread:
        kind = next((type(error) for error in unread if isinstance(error, NotReadError)), NotKnownError)
        raise kind("; ".join(map(str, unread)))


def _start(module: ListedModule) -> int:
    return module.text[0].start if module.text else module.place


def _recorded(objects: Objects, owners: Owners) -> Iterator[tuple[int, str]]:
    """Yield records of ftrace outside of the kernel and of every listed module."""
    records = read_records(objects)
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
