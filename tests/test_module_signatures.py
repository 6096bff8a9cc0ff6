"""Signatures of modules: refused, stripped, checked, and found broken."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.support.elf_edit import ElfEdit, edit, sign
from tests.test_modules import Mini, patch


def test_signed_modules_are_refused_or_stripped(mini: Mini, capsys: pytest.CaptureFixture[str]) -> None:
    ko = mini(ModuleSpec())
    unsigned = ko.read_bytes()
    elf = ElfEdit(ko)
    sign(elf)
    elf.save(ko)
    signed = ko.read_bytes()
    assert patch(ko, "--in-place", "--contract", "native") == 2
    assert "--strip-signature" in capsys.readouterr().err
    assert ko.read_bytes() == signed

    stripped = ko.with_name("stripped.ko")
    assert patch(ko, "-o", stripped, "--contract", "native", "--strip-signature") == 0
    assert len(stripped.read_bytes()) == len(unsigned)
    assert main(["verify", str(stripped), "--against", str(ko)]) == 0
    assert "6 sites" in capsys.readouterr().out
    assert patch(ko, "--in-place", "--contract", "native", "--strip-signature") == 0
    assert ko.read_bytes() == stripped.read_bytes()


def test_a_lost_signature_is_a_difference(mini: Mini, capsys: pytest.CaptureFixture[str]) -> None:
    """Processing takes it off where it writes; if it wrote nothing, nothing explains the loss."""
    cut = mini(ModuleSpec())
    signed = Path(shutil.copy(cut, cut.with_name("signed.ko")))
    with edit(signed) as elf:
        sign(elf)
    assert main(["verify", str(cut), "--against", str(signed)]) == 1
    said = capsys.readouterr().out
    assert "PL405 signature-broken (error): 1" in said
    assert f"differs from {signed} in its signature, which it lost" in said
    assert patch(cut, "--in-place", "--contract", "native") == 0
    assert main(["verify", str(cut), "--against", str(signed)]) == 0
    assert "PL405 signature-broken (warn): 1" in capsys.readouterr().out
    assert main(["verify", str(signed), "--against", str(cut)]) == 1  # PL403: what was processed is not any more
    assert "unexplained bytes, a signature that is new" in capsys.readouterr().out


def test_all_signatures_of_a_module_that_was_signed_twice_are_stripped(mini: Mini) -> None:
    """The kernel would take the first one for the signature of what is left."""
    ko = mini(ModuleSpec())
    unsigned = ko.stat().st_size
    with edit(ko) as elf:
        sign(elf)
        sign(elf)
    stripped = ko.with_name("stripped.ko")
    assert patch(ko, "-o", stripped, "--contract", "native", "--strip-signature") == 0
    assert stripped.stat().st_size == unsigned
    assert main(["verify", str(stripped), "--against", str(ko)]) == 0


def test_reversal_would_break_a_signature_too(mini: Mini, capsys: pytest.CaptureFixture[str]) -> None:
    """A native kernel's build processes modules and signs them then."""
    ko = mini(ModuleSpec())
    assert patch(ko, "--in-place", "--contract", "native") == 0
    elf = ElfEdit(ko)
    sign(elf)
    elf.save(ko)
    signed = ko.read_bytes()
    assert patch(ko, "--in-place", "--contract", "native") == 0  # nothing to do
    assert patch(ko, "--in-place", "--reverse") == 2
    assert "is signed" in capsys.readouterr().err
    assert ko.read_bytes() == signed


def test_a_pair_does_not_keep_the_keys_from_being_used(
    mini: Mini, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A signature that is the same as before may have been wrong before."""
    vmlinux = mini(Spec())
    ko = mini(ModuleSpec())
    elf = ElfEdit(ko)
    sign(elf)
    elf.save(ko)
    before = Path(shutil.copy(ko, ko.with_name("before.ko")))
    monkeypatch.setattr("prologue.elf.signature.check_signature", lambda *_: "bad")
    assert main(["verify", str(ko), "--against", str(before), "--vmlinux", str(vmlinux)]) == 1
    assert "PL405" in capsys.readouterr().out


def test_an_edit_that_keeps_the_signature_is_found(mini: Mini, capsys: pytest.CaptureFixture[str]) -> None:
    ko = mini(ModuleSpec())
    before = ko.with_name("before.ko")
    elf = ElfEdit(ko)
    sign(elf)
    elf.save(before)
    assert patch(ko, "--in-place", "--contract", "native") == 0
    edited = ElfEdit(ko)
    sign(edited)
    edited.save(ko)
    capsys.readouterr()
    assert main(["verify", str(ko), "--against", str(before), "--json"]) == 1
    found = {f["code"] for f in json.loads(capsys.readouterr().out)["findings"] if f["severity"] != "info"}
    assert found == {"PL405"}
