"""PL405: a module whose signature does not match its content, or that lost it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prologue.errors import InputError
from prologue.kernel.module import Module
from prologue.rules.base import Hit, Rule, Subject

_SIGN: Final = "sign it again (scripts/sign-file) before it is installed"


def check(subject: Subject) -> Iterator[Hit]:
    """Report an invalid trailer; one that was lost or copied; or, checked with the kernel's keys, a wrong one.

    Without the kernel's vmlinux or the file from before, this cannot be decided: a check needs the signer's key.
    """
    module, before = subject.module, subject.before
    try:
        signature = module.signature
    except InputError as error:
        yield Hit(0, error.message)
        return
    if signature is None:
        if isinstance(before, Module) and before.signature is not None:
            yield _lost(before, module)
        return
    if isinstance(before, Module) and before.signature is not None:
        copied = before.signature.pkcs7 == signature.pkcs7
        if copied and before.image.read(0, before.signature.start) != module.image.read(0, signature.start):
            yield Hit(0, f"the module differs from {before.path}, the signature does not")
            return
    if subject.vmlinux is not None and module.signed_by(subject.vmlinux.certificates) == "bad":
        yield Hit(0, f"the signature is by a key of {subject.vmlinux.path}, but does not match this content")


def _lost(before: Module, module: Module) -> Hit:
    """Make the hit of a module that lost its signature: processing takes it off, and only where it writes."""
    from prologue.plan.account import account

    accounting = account(before, module)
    processed = bool(accounting.words or accounting.incomparable)  # that it is another build, PL403 reports
    why = "" if processed else ", though nothing was processed"
    message = f"{before.path} is signed, and this file is not{why}"
    return Hit(0, message, severity="warn" if processed else "error", fix=_SIGN)


RULE = Rule(
    code="PL405",
    slug="signature-broken",
    severity="fatal",
    inputs=("K",),
    what="A signed module whose signature does not match its content. Checked with the keys in `--vmlinux`, or "
    "against the file from before. Only an error if it is gone; only warn if processing took it off.",
    why="A kernel that enforces signatures refuses the module. Any other kernel is tainted by it, and cannot "
    "distinguish this edit from a hostile one.",
    example="module edited after `make modules_install` had signed it",
    fix="process modules before they are signed, or strip the signature (`prologue patch --strip-signature`) and "
    "sign again",
    citation='kernel scripts/sign-file.c, kernel/module/signing.c "mod_verify_sig" (6.12)',
    check=check,
)
