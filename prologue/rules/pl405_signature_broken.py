"""PL405: a module whose signature does not match its content."""

from __future__ import annotations

from collections.abc import Iterator

from prologue.errors import InputError
from prologue.kernel.module import Module
from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Report an invalid trailer; a signature that was copied; or, checked with the kernel's keys, a wrong one.

    Without the kernel's vmlinux or the file from before, this cannot be decided: a check needs the signer's key.
    """
    module = subject.module
    try:
        signature = module.signature
    except InputError as error:
        yield Hit(0, error.message)
        return
    if signature is None:
        return
    before = subject.before
    if isinstance(before, Module) and before.signature is not None:
        copied = before.signature.pkcs7 == signature.pkcs7
        if copied and before.image.read(0, before.signature.start) != module.image.read(0, signature.start):
            yield Hit(0, f"the module differs from {before.path}, the signature does not")
            return
    if subject.vmlinux is not None and module.signed_by(subject.vmlinux.certificates) == "bad":
        yield Hit(0, f"the signature is by a key of {subject.vmlinux.path}, but does not match this content")


RULE = Rule(
    code="PL405",
    slug="signature-broken",
    severity="fatal",
    inputs=("K",),
    what="A signed module whose signature does not match its content. Checked with the keys in `--vmlinux`, or "
    "against the file from before.",
    why="A kernel that enforces signatures refuses the module. Any other kernel is tainted by it, and cannot "
    "distinguish this edit from a hostile one.",
    example="module edited after `make modules_install` had signed it",
    fix="process modules before they are signed, or strip the signature (`prologue patch --strip-signature`) and "
    "sign again",
    citation='kernel scripts/sign-file.c, kernel/module/signing.c "mod_verify_sig" (6.12)',
    check=check,
)
