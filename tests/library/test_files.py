"""``prologue.open``."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import prologue
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.support.built import Mini


def test_paths_are_text_or_path_and_files_may_be_compressed(mini: Mini, tmp_path: Path) -> None:
    path, packed = mini(Spec()), tmp_path / "vmlinux.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    every = [prologue.open(name) for name in (path, str(path), packed)]
    assert all(isinstance(each, prologue.Kernel) for each in every)
    assert [len(each.sites or ()) for each in every] == [15, 15, 15]
    module = prologue.open(mini(ModuleSpec()))
    assert isinstance(module, prologue.Module)
    assert repr(module) == f"Module('{module.path}')"


@pytest.mark.parametrize("content", [b"", b"text\n", b"\x7fELF" + bytes(60), b"MZ" + bytes(54) + b"ARMd" + bytes(4)])
def test_other_files_are_bad_input(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(prologue.InputError) as caught:
        prologue.open(path)
    assert caught.value.path == path
    with pytest.raises(prologue.InputError, match="cannot be opened"):
        prologue.open(tmp_path / "none")
