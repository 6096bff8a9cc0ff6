"""Debian's modules, processed, on Debian's kernel, processed: loaded, traced, and doing their work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.kernel.load import open_binary
from prologue_bench.errors import GuestLostError
from prologue_bench.guest.modules import load_order
from prologue_bench.guest.vm import GuestRun, Job, boot
from tests.support.cases import one_tested
from tests.support.guest_jobs import initramfs_with_jobs
from tests.support.needs import needs_kernel, needs_modules, needs_tools

pytestmark = [pytest.mark.kernel, pytest.mark.qemu]

MODULES = ("overlay", "loop", "brd")  # work without hardware, and what goes in can be compared with what comes out
UNSIGNED = 1 << 13  # TAINT_UNSIGNED_MODULE (include/linux/panic.h)


@dataclass(frozen=True, slots=True)
class Case:
    """A processed kernel, and some of its modules as Debian signed them."""

    directory: Path
    vmlinux: Path
    image: Path
    signed: tuple[Path, ...]

    def modules(self, name: str) -> list[Path]:
        """Fresh copies, in load order."""
        directory = self.directory / name
        directory.mkdir()
        return [
            Path(directory / path.name) for path in self.signed if (directory / path.name).write_bytes(content(path))
        ]


def content(path: Path) -> bytes:
    return bytes(open_binary(path).image.content)


@pytest.fixture(scope="module", params=one_tested("trixie", "bookworm"))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    needs_tools("qemu-system-aarch64")
    kernel = needs_kernel(request.param)
    directory = tmp_path_factory.mktemp(str(request.param))
    vmlinux, image, signed = directory / "vmlinux", directory / "Image", directory / "signed"
    assert main(["patch", str(kernel.vmlinux), "-o", str(vmlinux), "--contract", "stock"]) == 0
    assert main(["image", str(vmlinux), "-o", str(image)]) == 0
    signed.mkdir()
    copies = []
    for path in load_order(needs_modules(kernel), MODULES):
        copies.append(signed / f"{path.name.partition('.ko')[0]}.ko")
        copies[-1].write_bytes(content(path))
    return Case(directory, vmlinux, image, tuple(copies))


def run(case: Case, modules: list[Path], name: str, append: str = "") -> GuestRun:
    job = Job(names=("modules",), append=append, timeout=200)
    return boot(case.image, initramfs_with_jobs(modules), case.directory / f"{name}.log", job)


def test_processed_modules_work_and_are_traced(case: Case) -> None:
    modules = case.modules("processed")
    command = ["patch", *map(str, modules), "--in-place", "--strip-signature", "--vmlinux", str(case.vmlinux)]
    assert main(command) == 0
    assert main(["verify", *map(str, modules), "--vmlinux", str(case.vmlinux)]) == 0
    seen = run(case, modules, "processed")
    loaded = {event.data["name"]: event.data for event in seen.all("module")}
    assert set(loaded) == set(MODULES)
    for path in modules:
        sites = open_binary(path).sites
        assert sites is not None
        # Init text is gone by then, and its functions with it.
        assert 0 < loaded[path.stem]["functions"] <= len(sites)
    assert [event.data for event in seen.all("result") if not event.data["ok"]] == []
    assert len(seen.all("result")) == 4 * len(MODULES)
    traced = {(event.data["name"], event.data["tracer"]): event.data["entries"] for event in seen.all("module_traced")}
    assert set(traced) == {(name, tracer) for name in MODULES for tracer in ("function", "function_graph")}
    assert min(traced.values()) > 20
    assert seen.all("dmesg") == []
    assert seen.all("error") == []
    assert seen.one("end").data["taint"] == UNSIGNED


def test_unprocessed_modules_lose_lr(case: Case) -> None:
    """That kernel writes no prologues, so these have none: the test above can fail, and ``verify`` says why."""
    modules = case.modules("unprocessed")
    assert main(["verify", *map(str, modules), "--vmlinux", str(case.vmlinux)]) == 1
    with pytest.raises(GuestLostError):
        run(case, modules, "unprocessed", append="oops=panic")
    console = (case.directory / "unprocessed.log").read_text()
    assert "Kernel panic" in console
    assert "untraced" in console  # they work until the first BL
