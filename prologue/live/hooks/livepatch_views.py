"""Three views of livepatches: ``klp_patches``, what ``klp_ops`` replaces now, and directories of /sys/kernel/livepatch.

A patch gets its kobject before it is on the list, and is taken off the list before it loses that (``klp_init_patch``,
``klp_free_patch_start``); a replacement is on a stack of ``klp_ops`` only while its patch is on the list
(``klp_patch_func``, ``klp_unpatch_func``; kernel/livepatch/, 5.10-7.3), all with ``klp_mutex``.
"""

from __future__ import annotations

from collections.abc import Iterator

from prologue.live.hooks.inventory import Inventory
from prologue.live.hooks.other_hooks import functions_of_patch, hidden_replacements, patch_name, patches
from prologue.rules.base import Hit


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
