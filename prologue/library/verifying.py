"""``prologue.verify``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from prologue.errors import InputError, UsageError
from prologue.gate.settings import no_rule_applies
from prologue.gate.verify import Request, Verified, verify_binary
from prologue.kernel.load import open_binary
from prologue.kernel.module import Module
from prologue.library.files import File, FileName, path_of
from prologue.rules.registry import select_rules


def verify(  # noqa: PLR0913 - all others are optional, and named
    file: File,
    *,
    vmlinux: File | None = None,
    against: File | None = None,
    image: FileName | None = None,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
) -> Verified:
    """Run the rules on a vmlinux or a module, as ``prologue verify --no-config`` does.

    Args:
        file: what to verify; it is read again, for it may have been written since it was opened.
        vmlinux: the kernel of a module; without it some rules have less to compare, and signatures are not checked.
        against: the file before it was processed.
        image: the flat Image that was made from this vmlinux.
        select: codes, slugs or groups ("PL203", "PL1") of the rules to run; all if empty.
        ignore: those of rules not to run.

    Returns:
        A ``Verified``: ``passed``; ``findings``, root causes first; ``facts`` (``kind``, ``contract``, ``state``,
        ``sites``, ``release``, ``signature``); ``notes`` of what was not looked at, or is remarkable.

    Raises:
        InputError: a file cannot be read, or is of another kind; so nothing is called clean that was not read.
        UsageError: a name of no rule; or no rule that is left judges such a file, or its ``image``.

    """
    rules = select_rules(rule_names(select), rule_names(ignore))
    if image is not None and not any("I" in rule.inputs for rule in rules):
        raise UsageError("image= is for PL404, which would not run: remove it from ignore, or select it")
    binary = open_binary(path_of(file), unpack=True)
    if vmlinux is not None and not isinstance(binary, Module):
        raise InputError("vmlinux= names the kernel of a module, and this file is a kernel", path=binary.path)
    verified = verify_binary(
        Request(
            tuple(rule.code for rule in rules),
            against=None if against is None else path_of(against),
            image=None if image is None else Path(image),
            kernels=() if vmlinux is None else (path_of(vmlinux),),
        ),
        binary,
    )
    if all(verified.inputs.isdisjoint(rule.inputs) for rule in rules):
        raise no_rule_applies(rules, "this file")
    return verified


def rule_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return a selection of rules.

    Raises:
        UsageError: it is a text, whose letters would be taken for names.

    """
    if isinstance(names, str):
        raise UsageError(f'{names!r}: a selection is a list of rules, such as ["PL1", "PL203"]')
    return tuple(names)
