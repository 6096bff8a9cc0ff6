"""Every module of real Debian kernels: verified, processed, re-read; and the boot files beside them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from prologue.cli.parallel import run_many
from prologue.elf.compressed import decompress
from prologue.kernel.load import find_modules, open_binary
from prologue.patching.reread.module import reread_module
from tests.support.cases import one_tested
from tests.support.debian.kernels import DebianKernel, boot_file
from tests.support.needs import needs_kernel, needs_modules
from tests.support.tool import Tool

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


def verified(tool: Tool, *files: object) -> dict[str, set[str]]:
    """The rules that fired in each file, but for those that are true of it."""
    fired: dict[str, set[str]] = {}
    for finding in tool("verify", *files, "--json", "--no-config").json["findings"]:
        name = Path(finding["file"]).name
        if finding["code"] not in WEAK.get(name, set()):
            fired.setdefault(name, set()).add(finding["code"])
    return fired


def test_no_module_gives_a_false_finding(case: Case, tool: Tool) -> None:
    """With the kernel's own keys every signature is good, too."""
    assert len(find_modules(case.package)) > 900
    assert verified(tool, case.package, *case.vmlinux) == {}


@pytest.mark.parametrize("step", one_tested(5, 1))
def test_every_module_is_processed(case: Case, step: int, tmp_path: Path, tool: Tool) -> None:
    """LIEF finds every pair where we do, before and after; nothing but the first slots and the signature changes."""
    work = tmp_path / "modules"
    work.mkdir()
    originals = {path.name: path for path in find_modules(case.package)[::step]}
    for path in originals.values():
        shutil.copy(path, work / path.name)
    command = ("patch", work, "--in-place", "--contract", "stock", "--strip-signature", "--json")
    results = tool(*command).json["files"]
    assert len(results) == len(originals)
    sites = {Path(result["file"]).name: result["sites"] for result in results}
    assert sum(sites.values()) > 30_000 // step

    processed = [work / name for name, count in sites.items() if count]
    if case.kernel is None:  # a generic kernel has four times as many
        processed = processed[::4]
    for name, found in run_many(partial(compare, originals), processed, "compare"):
        assert found == sites[name], name
    assert verified(tool, work) == {}

    before = {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in work.iterdir()}
    tool(*command)
    assert {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in work.iterdir()} == before
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


def test_the_boot_file_belongs_to_the_vmlinux(case: Case, tool: Tool) -> None:
    """Debian signs its boot files; what that changes is no finding."""
    if case.kernel is None:
        pytest.skip("the vmlinux of the generic kernel is in test_generic")
    image = boot_file(case.package)
    assert verified(tool, case.kernel.vmlinux, "--select", "PL404", "--image", image) == {}
    assert "a flat arm64 Image, which names no sites: scan the vmlinux" in tool("scan", image, status=2).err


def test_a_kernel_in_several_packages(tool: Tool) -> None:
    """Debian 14 keeps boot file and modules in packages of their own."""
    kernel = needs_kernel("sid")
    package = needs_modules(kernel)
    assert len(find_modules(package)) > 900
    assert verified(tool, package, "--vmlinux", kernel.vmlinux) == {}
    assert verified(tool, kernel.vmlinux, "--select", "PL404", "--image", boot_file(package)) == {}


def signature(tool: Tool, *files: object, status: int = 0) -> str:
    """What is known of one module's signature."""
    (checked,) = tool("verify", *files, "--json", "--no-config", status=status).json["checked"]
    return str(checked["signature"])


def test_signatures_are_those_of_the_kernel_s_keys(case: Case, tmp_path: Path, tool: Tool) -> None:
    if case.kernel is None:
        pytest.skip("needs the vmlinux with the keys")
    signed = next(path for path in find_modules(case.package) if path.name.startswith("overlay.ko"))
    module = open_binary(signed)
    content = bytearray(module.image.content)
    copy = tmp_path / "overlay.ko"
    copy.write_bytes(content)
    assert signature(tool, copy, *case.vmlinux) == "good"
    place = next(s for s in module.image.sections if s.name == ".rodata").offset
    content[place] ^= 1
    copy.write_bytes(content)
    assert signature(tool, copy) == "not checked"  # without the keys there is no way to know
    assert signature(tool, copy, *case.vmlinux, status=1) == "bad"
