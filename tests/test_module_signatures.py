"""Signatures of modules: refused, stripped, checked, and found broken."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.support.elf_edit import ElfEdit, edit, sign
from tests.support.tool import Tool
from tests.test_modules import Mini, patch


@pytest.mark.parametrize("times", [1, 2])
def test_signed_modules_are_refused_or_stripped(mini: Mini, times: int, tool: Tool) -> None:
    """Of all signatures: the kernel would take the first of two for the signature of what is left."""
    ko = mini(ModuleSpec())
    unsigned = ko.read_bytes()
    with edit(ko) as elf:
        for _ in range(times):
            sign(elf)
    signed = ko.read_bytes()
    assert "--strip-signature" in tool("patch", ko, "--in-place", "--contract", "native", status=2).err
    assert ko.read_bytes() == signed

    stripped = ko.with_name("stripped.ko")
    assert patch(ko, "-o", stripped, "--contract", "native", "--strip-signature") == 0
    assert len(stripped.read_bytes()) == len(unsigned)
    assert "6 sites" in tool("verify", stripped, "--against", ko).out
    assert patch(ko, "--in-place", "--contract", "native", "--strip-signature") == 0
    assert ko.read_bytes() == stripped.read_bytes()


def test_a_lost_signature_is_a_difference(mini: Mini, tool: Tool) -> None:
    """Processing takes it off where it writes; if it wrote nothing, nothing explains the loss."""
    cut = mini(ModuleSpec())
    signed = Path(shutil.copy(cut, cut.with_name("signed.ko")))
    with edit(signed) as elf:
        sign(elf)
    said = tool("verify", cut, "--against", signed, status=1).out
    assert "PL405 signature-broken (error): 1" in said
    assert f"differs from {signed} in its signature, which it lost" in said
    assert patch(cut, "--in-place", "--contract", "native") == 0
    assert "PL405 signature-broken (warn): 1" in tool("verify", cut, "--against", signed).out
    # PL403: what was processed is not any more
    assert "unexplained bytes, a signature that is new" in tool("verify", signed, "--against", cut, status=1).out


def test_reversal_would_break_a_signature_too(mini: Mini, tool: Tool) -> None:
    """A native kernel's build processes modules and signs them then."""
    ko = mini(ModuleSpec())
    assert patch(ko, "--in-place", "--contract", "native") == 0
    with edit(ko) as elf:
        sign(elf)
    signed = ko.read_bytes()
    assert patch(ko, "--in-place", "--contract", "native") == 0  # nothing to do
    assert "is signed" in tool("patch", ko, "--in-place", "--reverse", status=2).err
    assert ko.read_bytes() == signed


def test_a_pair_does_not_keep_the_keys_from_being_used(mini: Mini, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    """A signature that is the same as before may have been wrong before."""
    vmlinux = mini(Spec())
    ko = mini(ModuleSpec())
    with edit(ko) as elf:
        sign(elf)
    before = Path(shutil.copy(ko, ko.with_name("before.ko")))
    monkeypatch.setattr("prologue.elf.signature.check_signature", lambda *_: "bad")
    assert "PL405" in tool("verify", ko, "--against", before, "--vmlinux", vmlinux, status=1).out


def test_an_edit_that_keeps_the_signature_is_found(mini: Mini, tool: Tool) -> None:
    ko = mini(ModuleSpec())
    before = ko.with_name("before.ko")
    elf = ElfEdit(ko)
    sign(elf)
    elf.save(before)
    assert patch(ko, "--in-place", "--contract", "native") == 0
    with edit(ko) as edited:
        sign(edited)
    document = tool("verify", ko, "--against", before, "--json", status=1).json
    found = {f["code"] for f in document["findings"] if f["severity"] != "info"}
    assert found == {"PL405"}
