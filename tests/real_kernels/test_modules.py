"""Every module of real Debian kernels: verified, processed, re-read; and the boot files beside them."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.cli.parallel import run_many
from prologue.elf.compressed import decompress
from prologue.kernel.load import find_modules, open_binary
from prologue.patching.reread.module import reread_module
from tests.support.boot_file import boot_file
from tests.support.cases import one_tested
from tests.support.debian.kernels import DebianKernel
from tests.support.needs import needs_kernel, needs_modules

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(1800)]

# True of the file: text and record of an overridden weak function that the link of the module kept.
WEAK = {"rvu_nicpf.ko.xz": {"PL109"}, "rvu_nicpf.ko": {"PL109"}}


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel package, and the vmlinux that it belongs to, if that is at hand."""

    package: Path
    kernel: DebianKernel | None

    @property
    def vmlinux(self) -> list[str]:
        return ["--vmlinux", str(self.kernel.vmlinux)] if self.kernel else []


@pytest.fixture(
    scope="module",
    params=[
        "bookworm cloud-arm64",
        "trixie cloud-arm64",
        pytest.param("bookworm arm64", marks=pytest.mark.extended),
    ],
)
def case(request: pytest.FixtureRequest) -> Case:
    suite, flavour = request.param.split()
    cloud = needs_kernel(suite)
    kernel = replace(cloud, flavour=flavour, release=cloud.release.replace("cloud-arm64", flavour))
    return Case(needs_modules(kernel), cloud if flavour == "cloud-arm64" else None)


def verified(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, set[str]]]:
    """Exit code, and the rules that fired in each file."""
    capsys.readouterr()
    status = main(["verify", *map(str, arguments), "--json", "--no-config"])
    fired: dict[str, set[str]] = {}
    for finding in json.loads(capsys.readouterr().out)["findings"]:
        fired.setdefault(Path(finding["file"]).name, set()).add(finding["code"])
    return status, fired


def test_no_module_gives_a_false_finding(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    """With the kernel's own keys every signature is good, too."""
    assert len(find_modules(case.package)) > 900
    status, fired = verified(capsys, case.package, *case.vmlinux)
    assert {name: codes - WEAK.get(name, set()) for name, codes in fired.items() if codes - WEAK.get(name, set())} == {}
    assert status == 0


@pytest.mark.parametrize("step", one_tested(5, 1))
def test_every_module_is_processed(case: Case, step: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """LIEF finds every pair where we do, before and after; nothing but the first slots and the signature changes."""
    work = tmp_path / "modules"
    work.mkdir()
    originals = {path.name: path for path in find_modules(case.package)[::step]}
    for path in originals.values():
        shutil.copy(path, work / path.name)
    command = ["patch", str(work), "--in-place", "--contract", "stock", "--strip-signature", "--json"]
    assert main(command) == 0
    results = json.loads(capsys.readouterr().out)["files"]
    assert len(results) == len(originals)
    sites = {Path(result["file"]).name: result["sites"] for result in results}
    assert sum(sites.values()) > 30_000 // step

    processed = [work / name for name, count in sites.items() if count]
    if case.kernel is None:  # a generic kernel has four times as many
        processed = processed[::4]
    for name, found in run_many(partial(compare, originals), processed, "compare"):
        assert found == sites[name], name
    status, fired = verified(capsys, work)
    assert {name: codes - WEAK.get(name, set()) for name, codes in fired.items() if codes - WEAK.get(name, set())} == {}
    assert status == 0

    before = {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in work.iterdir()}
    assert main(command) == 0
    assert {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in work.iterdir()} == before
    capsys.readouterr()
    shutil.rmtree(work)


def compare(originals: dict[str, Path], path: Path) -> tuple[str, int]:
    """Name and number of pairs, after a comparison of both files by a reader of its own."""
    old = open_binary(originals[path.name], unsigned=True)
    before, after = bytes(old.image.content), path.read_bytes()
    if path.suffix == ".xz":
        after = decompress(after, path)
    places = reread_module(before, path, processed=False)
    assert reread_module(after, path, processed=True) == places, path.name
    assert len(after) == len(before), path.name
    restored = bytearray(after)
    for index, offset in places:
        at = old.image.sections[index].offset + offset
        restored[at : at + 4] = b"\x1f\x20\x03\xd5"
    assert restored == before, path.name
    return path.name, len(places)


def test_the_boot_file_belongs_to_the_vmlinux(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    """Debian signs its boot files; what that changes is no finding."""
    if case.kernel is None:
        pytest.skip("the vmlinux of the generic kernel is in test_generic")
    image = boot_file(case.package)
    assert verified(capsys, case.kernel.vmlinux, "--select", "PL404", "--image", image) == (0, {})
    assert main(["scan", str(image)]) == 2
    assert "a flat arm64 Image, which names no sites: scan the vmlinux" in capsys.readouterr().err


def test_a_kernel_in_several_packages(capsys: pytest.CaptureFixture[str]) -> None:
    """Debian 14 keeps boot file and modules in packages of their own."""
    kernel = needs_kernel("sid")
    package = needs_modules(kernel)
    assert len(find_modules(package)) > 900
    assert verified(capsys, package, "--vmlinux", kernel.vmlinux) == (0, {})
    assert verified(capsys, kernel.vmlinux, "--select", "PL404", "--image", boot_file(package)) == (0, {})


def signature(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Exit code, and what is known of one module's signature."""
    capsys.readouterr()
    status = main(["verify", *map(str, arguments), "--json", "--no-config"])
    (checked,) = json.loads(capsys.readouterr().out)["checked"]
    return status, str(checked["signature"])


def test_signatures_are_those_of_the_kernel_s_keys(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if case.kernel is None:
        pytest.skip("needs the vmlinux with the keys")
    signed = next(path for path in find_modules(case.package) if path.name.startswith("overlay.ko"))
    module = open_binary(signed)
    content = bytearray(module.image.content)
    copy = tmp_path / "overlay.ko"
    copy.write_bytes(content)
    assert signature(capsys, copy, *case.vmlinux) == (0, "good")
    place = next(s for s in module.image.sections if s.name == ".rodata").offset
    content[place] ^= 1
    copy.write_bytes(content)
    assert signature(capsys, copy) == (0, "not checked")  # without the keys there is no way to know
    assert signature(capsys, copy, *case.vmlinux) == (1, "bad")
