"""The fixtures of group PL4: what the build left behind."""

from __future__ import annotations

import struct
from collections.abc import Callable

from prologue.cli.main import main
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.rules.fixture import Arguments, Fixture, Maker, copy_before, made, process
from tests.support.built import AnySpec, Mini
from tests.support.elf_edit import MOV, NOP, ElfEdit, edit, sign

STOCK = Spec(contract="stock")


def _process_without_marker(elf: ElfEdit) -> None:
    for slot in elf.live_slots():
        elf.set_word(elf.record(slot), MOV)
        elf.set_record(slot, elf.record(slot) + 4)


def _set_marker(elf: ElfEdit) -> None:
    marker = elf.value("__ftrace_prologue_marker")
    elf.set_quad(marker + 8, 1 | 1 << 32)
    elf.set_quad(marker + 16, len(elf.live_slots()))


def _processed(spec: AnySpec, change: Callable[[ElfEdit], None] | None = None, contract: str = "auto") -> Maker:
    """A file that was processed, then perhaps changed, and the one from before."""

    def make(mini: Mini) -> Arguments:
        path = mini(spec)
        before = copy_before(path)
        process(path, contract)
        if change is not None:
            with edit(path) as elf:
                change(elf)
        return [path, "--against", before]

    return make


def _image(*, stale: bool) -> Maker:
    """A kernel, and a boot file that was made before or after processing."""

    def make(mini: Mini) -> Arguments:
        vmlinux = mini(Spec())
        image = vmlinux.with_name("Image")
        for step in ("image", "patch") if stale else ("patch", "image"):
            options = ["-o", str(image)] if step == "image" else ["--in-place"]
            assert main([step, str(vmlinux), *options]) == 0
        return [vmlinux, "--image", image]

    return make


def _sign_wrongly(elf: ElfEdit) -> None:
    """With a signature that is longer than the file."""
    sign(elf)
    struct.pack_into(">I", elf.data, len(elf.data) - 32, len(elf.data))


def _itself(mini: Mini) -> Arguments:
    module = mini(ModuleSpec())
    return [module, "--against", copy_before(module)]


def _variant(kind: str) -> Maker:
    def make(mini: Mini) -> Arguments:
        vmlinux = mini(Spec())
        out = vmlinux.with_name(kind)
        assert main(["variant", str(vmlinux), "--kind", kind, "-o", str(out)]) == 0
        return [out]

    return make


def _lose_relocation(elf: ElfEdit) -> None:
    """Of another pointer than the records."""
    entry = max(elf.rela()[place] for place in elf.rela() if place)
    elf.data[entry : entry + 24] = bytes(24)


FIXTURES = {
    "PL401": Fixture(made(STOCK, _process_without_marker), made(STOCK), contract="stock"),
    "PL402": Fixture(made(Spec(), _set_marker), made(Spec(), processed=True)),
    "PL403": Fixture(
        _processed(Spec(), lambda elf: elf.set_word(elf.value("work_nested") + 16, NOP)),
        _processed(Spec()),
        symbol="work_nested",
    ),
    "PL404": Fixture(_image(stale=True), _image(stale=False)),
    "PL405": Fixture(made(ModuleSpec(), _sign_wrongly), made(ModuleSpec(), sign)),
    "PL406": Fixture(_processed(ModuleSpec(), contract="native"), _itself),
    # Linked with the marker, and its ftrace.c knows nothing of it.
    "PL407": Fixture(made(Spec(ignores_marker=True)), made(Spec()), symbol="ftrace_init"),
    "PL408": Fixture(_variant("nop-nop"), _variant("build"), symbol="ftrace_init"),
    "PL409": Fixture(_processed(Spec(marker=2), _lose_relocation), _processed(Spec(marker=2))),
}
