"""PL514: functions that are traced by other users, or called directly otherwise, than ftrace lists."""

from __future__ import annotations

from prologue.rules.base import Rule

RULE = Rule(
    code="PL514",
    slug="ftrace-lists-disagree",
    severity="error",
    inputs=("C",),
    what="A function whose record counts more or fewer users than the list of `ftrace_ops` has for it, or is enabled "
    "without a user. A direct call that is not the same in `direct_functions`, in the filter and target of the "
    "`ftrace_ops` that is DIRECT, and in the flags of the record. Every bucket of every filter is read. Nothing is "
    "said while `ftrace_lock` (for direct calls, `direct_mutex` as well) is held.",
    why="Registration counts. An ops that was taken off the list by hand is still called, where `enabled_functions` "
    "and every tool that walks the list do not show it. A direct call leads past ftrace: it goes where one of these "
    "lists says, while the others still have what was registered.",
    example="vfs_read: its record counts 1 user, and the list of ftrace_ops has 0 for it",
    fix="take a dump from outside for evidence; see where the second slot of the function leads",
    citation="kernel kernel/trace/ftrace.c __ftrace_hash_rec_update, referenced_filters (5.10-7.3); "
    "register_ftrace_direct (6.4-7.3)",
)
