"""``prologue scan`` of many files, and of compressed ones, which ``verify`` reads as well."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.elf.compressed import compress
from prologue.elf.identify import Compression
from tests.elf.test_payload import DEVICE_TREE, image, uimage
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.support.tool import Tool

Mini = Callable[[Spec | ModuleSpec], Path]


@pytest.mark.thorough
def test_many_files_and_directories(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux, ko, modules = mini(Spec()), mini(ModuleSpec()), tmp_path / "modules"
    modules.mkdir()
    for number in range(10):  # more than one process does
        shutil.copy(ko, modules / f"m{number}.ko")
    image = tmp_path / "Image"
    assert main(["image", str(vmlinux), "-o", str(image)]) == 0
    files = [str(vmlinux), str(modules), str(image)]
    # for the Image, of whose sites nothing is known
    said = tool("scan", *files, status=2).out
    assert said.count("; untouched; ") == 11
    assert f"{image}: a flat arm64 Image\n" in said
    *lines, summary = said.splitlines()
    assert len(lines) == 12
    assert summary.startswith("12 of 12 files: 1 vmlinux, 10 modules, 1 boot file; 11 untouched; ")
    output = tool("scan", *files, tmp_path / "absent", "--json", status=2)
    assert output.err == f"prologue: {tmp_path / 'absent'}: cannot be opened: No such file or directory\n"
    data = json.loads(output.out)
    assert (data["schema"], data["failed"]) == ("prologue.scan/1", 1)
    assert [entry["kind"] for entry in data["files"]] == ["vmlinux", *["module"] * 10, "image"]


@pytest.mark.parametrize("kind", ["gzip", "xz", "zstd"])
def test_a_compressed_vmlinux_is_read_and_not_written(
    mini: Mini, tmp_path: Path, kind: Compression, tool: Tool
) -> None:
    vmlinux, stored = mini(Spec()), tmp_path / f"vmlinux.{kind}"
    stored.write_bytes(compress(vmlinux.read_bytes(), kind))
    (plain,) = tool("scan", vmlinux, "--json").json["files"]
    assert tool("scan", stored, "--json").json["files"] == [plain | {"file": str(stored)}]
    assert tool("verify", stored).out == "1 file: clean (15 sites, untouched, native)\n"
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    assert "15 sites, 15 records" in tool("verify", vmlinux, "--against", stored).out
    assert main(["verify", str(mini(ModuleSpec())), "--vmlinux", str(stored)]) == 0
    before = stored.read_bytes()
    for options in (["--in-place"], ["-o", str(tmp_path / "out")]):
        assert "an arm64 ELF file, compressed: unpack it first" in tool("patch", stored, *options, status=2).err
    assert stored.read_bytes() == before
    assert not (tmp_path / "out").exists()
    assert "is for modules, but no FILE is a module" in tool("verify", stored, "--vmlinux", vmlinux, status=2).err


def test_a_compressed_vmlinux_without_room_to_unpack_it(
    mini: Mini, tmp_path: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = tmp_path / "vmlinux.xz"
    stored.write_bytes(compress(mini(Spec()).read_bytes(), "xz"))
    monkeypatch.setattr("tempfile.TemporaryFile", partial(Path("/dev/full").open, "w+b"))
    assert "cannot be unpacked in" in tool("scan", stored, status=2).err


def test_the_name_of_a_file_adds_no_line(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    forged = tmp_path / "vmlinux\nstate      processed"
    shutil.copy(mini(Spec()), forged)
    for files in ([forged], [forged, mini(Spec())]):
        assert not [line for line in tool("scan", *files).out.splitlines() if line.startswith("state      processed")]
    for words in (["image"], ["variant", "--kind", "boot"], ["patch"]):
        assert len(tool(*words, forged, "-o", f"{forged}.{words[0]}").out.splitlines()) == 1


def test_a_module_is_no_vmlinux_of_modules(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    module = mini(ModuleSpec())
    other = Path(shutil.copy(module, tmp_path / "other.ko"))
    said = tool("verify", module, "--vmlinux", other, status=2).err
    assert f"{other}: is a module: name the vmlinux of its kernel" in said


@pytest.mark.parametrize(
    ("pack", "kind", "said"),
    [
        (lambda flat: gzip.compress(flat) + DEVICE_TREE, "image", "a flat arm64 Image, compressed with gzip"),
        (lambda flat: lzma.compress(flat, lzma.FORMAT_ALONE), "lzma", "a file compressed with lzma"),
        (bz2.compress, "bzip2", "a file compressed with bzip2"),
        (uimage, "uimage", "a U-Boot image (uImage)"),
        (lambda flat: b"\x04\x22\x4d\x18" + flat, "lz4", "a file compressed with lz4"),
        (lambda flat: DEVICE_TREE + flat, "fit", "a FIT image or device tree"),
    ],
)
def test_boot_files_that_verify_knows_are_named(
    tmp_path: Path, tool: Tool, pack: Callable[[bytes], bytes], kind: str, said: str
) -> None:
    path = tmp_path / "boot"
    path.write_bytes(pack(image()))
    ran = tool("scan", path, status=2)
    assert ran[:2] == (
        "",
        f"prologue: {path}: {said}, which names no sites: scan the vmlinux that it was made from, "
        "and `prologue verify VMLINUX --image` compares the two\n",
    )
    assert tool("scan", path, "--json", status=2).json["files"][0]["kind"] == kind
    assert "the vmlinux" in tool("verify", path, status=2).err


def test_a_boot_file_of_x86_is_named(tmp_path: Path, tool: Tool) -> None:
    path = tmp_path / "vmlinuz"
    path.write_bytes(b"MZ".ljust(0x202, b"\0") + b"HdrS" + bytes(512))
    said = tool("scan", path, status=2).err
    assert said == f"prologue: {path}: an x86 boot file (bzImage); prologue is for arm64 kernels\n"
