"""The mini kernel, processed by the kernel's own sorttable, boots: it reads the marker, copies offsets, and traces."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from prologue.cli.main import main
from prologue.errors import RefusedError
from prologue.kernel.kernel import Kernel
from prologue.kernel.linked import as_linked
from tests.mini_kernel.build import Form, Layout, Spec, build
from tests.mini_kernel.run import run
from tests.support.linked_elf import SYMBOL
from tests.support.needs import needs_mini_kernel_tools, needs_tools
from tests.support.sorttable import SERIES, Sorttable, compile_sorttable
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.qemu]

_BY_GCC: Final[tuple[Form, ...]] = ("static", "rela", "rela-applied")
_LAYOUTS: Final[tuple[Layout, ...]] = ("2", "4,2")
_FORMS: Final = [
    *(Spec(layout=layout, form=form, marker=2) for form in _BY_GCC for layout in _LAYOUTS),
    Spec(layout="2", form="relr", compiler="clang", marker=2),
    Spec(layout="4,2", form="relr", compiler="clang", bti=True, marker=2),
]
_RESERVED: Final = 36  # of the marker's bytes: a word that stays 0


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Sorttable:
    needs_mini_kernel_tools()
    return compile_sorttable(SERIES[-1], tmp_path_factory.mktemp("sorttable"))


def complete(vmlinux: Path) -> None:
    """Give it what sorttable asks of every kernel: a table of exceptions, and the flag that it is sorted."""
    needs_tools("aarch64-linux-gnu-objcopy", "nm")
    table = vmlinux.with_name("exceptions")
    table.write_bytes(bytes(12))
    kernel = Kernel(vmlinux)
    marker = kernel.symbols.find(SYMBOL)
    assert marker is not None
    (data,) = (section for section in kernel.image.sections if section.name == ".init.data")
    place = f".init.data:{marker.vaddr - data.addr + _RESERVED},object,global"
    command = ["aarch64-linux-gnu-objcopy", f"--add-section=__ex_table={table}"]
    # sorttable does not look at the last symbol of all.
    command += [f"--add-symbol={name}={place}" for name in ("main_extable_sort_needed", "last")]
    subprocess.run([*command, vmlinux], check=True)


@pytest.mark.parametrize("spec", _FORMS, ids=str)
def test_what_sorttable_made_runs(programs: Sorttable, spec: Spec, tmp_path: Path, tool: Tool) -> None:
    """No word of text is written at boot, and each call has the true LR in x9 while callsites swing."""
    vmlinux = build(spec, tmp_path)
    complete(vmlinux)
    before = run(vmlinux)
    assert before.passed, before.lines
    assert before.values["writes"] == before.values["sites"]
    names = tmp_path / "nm"
    names.write_bytes(subprocess.run(["nm", "-S", vmlinux], capture_output=True, check=True).stdout)
    program = programs.layouts[2 if spec.layout == "4,2" else 0]
    done = subprocess.run([program, "-s", names, vmlinux], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    after = run(vmlinux)
    assert after.passed, after.lines
    assert (after.values["writes"], after.values["sites"]) == ("0", before.values["sites"])
    assert main(["verify", str(vmlinux), "--require", "processed"]) == 0
    assert f"({'offsets, linked as static' if spec.form == 'static' else 'offsets'})," in tool("scan", vmlinux).out
    if spec.form != "static":
        with pytest.raises(RefusedError, match="scripts/sorttable processed it, and keeps nothing of what was linked"):
            as_linked(Kernel(vmlinux))
