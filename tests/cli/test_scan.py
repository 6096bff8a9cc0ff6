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

Mini = Callable[[Spec | ModuleSpec], Path]
Said = pytest.CaptureFixture[str]


@pytest.mark.thorough
def test_many_files_and_directories(mini: Mini, tmp_path: Path, capsys: Said) -> None:
    vmlinux, ko, modules = mini(Spec()), mini(ModuleSpec()), tmp_path / "modules"
    modules.mkdir()
    for number in range(10):  # more than one process does
        shutil.copy(ko, modules / f"m{number}.ko")
    image = tmp_path / "Image"
    assert main(["image", str(vmlinux), "-o", str(image)]) == 0
    capsys.readouterr()
    files = [str(vmlinux), str(modules), str(image)]
    assert main(["scan", *files]) == 2  # for the Image, of whose sites nothing is known
    said = capsys.readouterr().out
    assert said.count("; untouched; ") == 11
    assert f"{image}: a flat arm64 Image\n" in said
    *lines, summary = said.splitlines()
    assert len(lines) == 12
    assert summary.startswith("12 of 12 files: 1 vmlinux, 10 modules, 1 boot file; 11 untouched; ")
    assert main(["scan", *files, str(tmp_path / "absent"), "--json"]) == 2
    output = capsys.readouterr()
    assert output.err == f"prologue: {tmp_path / 'absent'}: cannot be opened: No such file or directory\n"
    data = json.loads(output.out)
    assert (data["schema"], data["failed"]) == ("prologue.scan/1", 1)
    assert [entry["kind"] for entry in data["files"]] == ["vmlinux", *["module"] * 10, "image"]


@pytest.mark.parametrize("kind", ["gzip", "xz", "zstd"])
def test_a_compressed_vmlinux_is_read_and_not_written(
    mini: Mini, tmp_path: Path, kind: Compression, capsys: Said
) -> None:
    vmlinux, stored = mini(Spec()), tmp_path / f"vmlinux.{kind}"
    stored.write_bytes(compress(vmlinux.read_bytes(), kind))
    assert main(["scan", str(vmlinux), "--json"]) == 0
    (plain,) = json.loads(capsys.readouterr().out)["files"]
    assert main(["scan", str(stored), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == [plain | {"file": str(stored)}]
    assert main(["verify", str(stored)]) == 0
    assert capsys.readouterr().out == "1 file: clean (15 sites, untouched, native)\n"
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    assert main(["verify", str(vmlinux), "--against", str(stored)]) == 0
    assert "15 sites, 15 records" in capsys.readouterr().out
    assert main(["verify", str(mini(ModuleSpec())), "--vmlinux", str(stored)]) == 0
    before = stored.read_bytes()
    for options in (["--in-place"], ["-o", str(tmp_path / "out")]):
        assert main(["patch", str(stored), *options]) == 2
        assert "an arm64 ELF file, compressed: unpack it first" in capsys.readouterr().err
    assert stored.read_bytes() == before
    assert not (tmp_path / "out").exists()
    assert main(["verify", str(stored), "--vmlinux", str(vmlinux)]) == 2
    assert "is for modules, but no FILE is a module" in capsys.readouterr().err


def test_a_compressed_vmlinux_without_room_to_unpack_it(
    mini: Mini, tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = tmp_path / "vmlinux.xz"
    stored.write_bytes(compress(mini(Spec()).read_bytes(), "xz"))
    monkeypatch.setattr("tempfile.TemporaryFile", partial(Path("/dev/full").open, "w+b"))
    assert main(["scan", str(stored)]) == 2
    assert "cannot be unpacked in" in capsys.readouterr().err


def test_the_name_of_a_file_adds_no_line(mini: Mini, tmp_path: Path, capsys: Said) -> None:
    forged = tmp_path / "vmlinux\nstate      processed"
    shutil.copy(mini(Spec()), forged)
    for files in ([forged], [forged, mini(Spec())]):
        assert main(["scan", *map(str, files)]) == 0
        assert not [line for line in capsys.readouterr().out.splitlines() if line.startswith("state      processed")]
    assert main(["image", str(forged), "-o", f"{forged}.Image"]) == 0
    assert main(["variant", str(forged), "--kind", "boot", "-o", f"{forged}.boot"]) == 0
    assert main(["patch", str(forged), "-o", f"{forged}.out"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_module_is_no_vmlinux_of_modules(mini: Mini, tmp_path: Path, capsys: Said) -> None:
    module = mini(ModuleSpec())
    other = Path(shutil.copy(module, tmp_path / "other.ko"))
    assert main(["verify", str(module), "--vmlinux", str(other)]) == 2
    assert f"{other}: is a module: name the vmlinux of its kernel" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pack", "kind", "said"),
    [
        (lambda flat: gzip.compress(flat) + DEVICE_TREE, "image", "a flat arm64 Image, compressed with gzip"),
        (lambda flat: lzma.compress(flat, lzma.FORMAT_ALONE), "image", "a flat arm64 Image, compressed with lzma"),
        (bz2.compress, "image", "a flat arm64 Image, compressed with bzip2"),
        (uimage, "uimage", "a U-Boot image (uImage)"),
        (lambda flat: b"\x04\x22\x4d\x18" + flat, "lz4", "a file compressed with lz4"),
        (lambda flat: DEVICE_TREE + flat, "fit", "a FIT image or device tree"),
    ],
)
def test_boot_files_that_verify_knows_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pack: Callable[[bytes], bytes], kind: str, said: str
) -> None:
    path = tmp_path / "boot"
    path.write_bytes(pack(image()))
    assert main(["scan", str(path)]) == 2
    assert capsys.readouterr() == (
        "",
        f"prologue: {path}: {said}, which names no sites: scan the vmlinux that it was made from, "
        "and `prologue verify VMLINUX --image` compares the two\n",
    )
    assert main(["scan", str(path), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["files"][0]["kind"] == kind
    assert main(["verify", str(path)]) == 2
    assert "the vmlinux" in capsys.readouterr().err


def test_a_boot_file_of_x86_is_named(tmp_path: Path, capsys: Said) -> None:
    path = tmp_path / "vmlinuz"
    path.write_bytes(b"MZ".ljust(0x202, b"\0") + b"HdrS" + bytes(512))
    assert main(["scan", str(path)]) == 2
    assert capsys.readouterr().err == f"prologue: {path}: an x86 boot file (bzImage); prologue is for arm64 kernels\n"
