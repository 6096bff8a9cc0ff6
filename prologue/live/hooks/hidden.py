"""Modules and livepatches as each list of the kernel has them: one that one list has and another lacks is hidden.

The list ``modules`` is what /proc/modules and kallsyms show. ``mod_tree`` finds the module of an address, and the
kobjects of ``module_kset`` are the directories of /sys/module. ftrace has records of a module's functions.

Of livepatches, there are ``klp_patches``, what ``klp_ops`` replaces now, and directories of /sys/kernel/livepatch.
A patch gets its kobject before it is on the list, and is taken off the list before it loses that (``klp_init_patch``,
``klp_free_patch_start``); a replacement is on a stack of ``klp_ops`` only while its patch is on the list
(``klp_patch_func``, ``klp_unpatch_func``; kernel/livepatch/, 5.10-7.3), all with ``klp_mutex``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.arrays import runs_of
from prologue.live.hooks.inventory import Inventory
from prologue.live.hooks.modules import MODULES_CHANGE, ListedModule, module_views
from prologue.live.hooks.other_hooks import functions_of_patch, hidden_replacements, patch_name, patches
from prologue.live.hooks.owners import Owners
from prologue.live.structs.ftrace_lists import read_records
from prologue.live.structs.objects import NotKnownError, Objects, raise_all
from prologue.rules.base import Hit
from prologue.words import counted

_APART: Final = 1 << 12  # bytes between records that are those of different modules


def hidden_modules(inventory: Inventory) -> Iterator[Hit]:
    """Yield each module that a list has and another lacks, and what contradicts.

    Raises:
        NotKnownError: after the others, that a list cannot be read.

    """
    objects, owners = inventory.objects, inventory.owners
    objects.require_rest(*MODULES_CHANGE)
    if not owners.lists_modules:
        raise NotKnownError("the list of modules cannot be read")
    views, unread = module_views(objects)
    for module in inventory.unlisted:
        having = " and ".join(name for name, places in views if module.place in places)
        if having:
            message = f"module {module.name} is in {having}, and not in the list of modules"
            yield Hit(_start(module), message)
    for module in owners.modules:
        # What is being loaded or unloaded is in some lists already, or still.
        for name, places in views if module.state == "live" else ():
            if module.place not in places:
                message = f"module {module.name} is in the list of modules, and not in {name}"
                yield Hit(_start(module), message)
    try:
        yield from _recorded(objects, owners)
    except NotKnownError as error:
        unread.append(error)
    raise_all(unread)


def _start(module: ListedModule) -> int:
    return module.text[0].start if module.text else module.place


def _recorded(objects: Objects, owners: Owners) -> Iterator[Hit]:
    """Yield records of ftrace outside of the kernel and of every listed module."""
    records = read_records(objects)
    low, high = objects.place("_stext"), objects.place("_end")
    places = records.places[(records.places != 0) & ((records.places < low) | (records.places >= high))]
    for module in owners.modules:
        for part in module.memory:
            places = places[(places < np.uint64(part.start)) | (places >= np.uint64(part.stop))]
    for group in runs_of(places, _APART):
        first, last = int(group[0]), int(group[-1])
        count = counted(len(group), "function")
        message = f"ftrace has records of {count} from {first:#x} to {last:#x}, where no listed module is"
        yield Hit(first, message)


def hidden_patches(inventory: Inventory) -> Iterator[Hit]:
    """Yield functions whose livepatch one view has and another lacks.

    Raises:
        NotKnownError: a list cannot be read, or was being changed.

    """
    objects = inventory.objects
    if not objects.has("klp_patches"):
        return
    objects.require_rest("klp_mutex", "livepatches were being changed")
    for patch in patches(objects):
        if objects.get(patch, "klp_patch.kobj.sd"):
            continue
        for _, func in functions_of_patch(objects, patch):
            message = f"the livepatch {patch_name(objects, patch)} replaces it, and is not in /sys/kernel/livepatch"
            if old := objects.get(func, "klp_func.old_func"):  # none if its module is not loaded
                yield Hit(old, message)
    for func in hidden_replacements(objects):
        new = inventory.owners.name(objects.get(func, "klp_func.new_func"))
        message = f"a livepatch that is not in klp_patches replaces it by {new}"
        yield Hit(objects.get(func, "klp_func.old_func"), message)
