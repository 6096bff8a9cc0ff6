"""PL510: a module that one list of the kernel has and another lacks."""

from __future__ import annotations

from prologue.rules.base import Rule

RULE = Rule(
    code="PL510",
    slug="module-not-listed",
    severity="error",
    inputs=("C",),
    what="A module that is in one of the kernel's lists and not in another: the list that /proc/modules shows, "
    "mod_tree, the kobjects of /sys/module; or functions in ftrace's records where no listed module is. A livepatch "
    "that replaces a function, and is not on the list of livepatches, or has no directory in /sys/kernel/livepatch.",
    why="The kernel puts a live module into all of them, and takes it off all of them. A module that takes itself off "
    "a list wants not to be seen.",
    example="a module in mod_tree whose struct is on no list: lsmod does not show it, and its code runs",
    fix="take a dump from outside for evidence; the module's memory is where the message says",
    citation="kernel kernel/module/main.c, kernel/module/tree_lookup.c, kernel/module/sysfs.c, kernel/livepatch/core.c "
    "(6.1-7.3)",
)
