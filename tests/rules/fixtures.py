"""For every rule a file that fires exactly it, and a twin, as near to it as can be, that fires nothing."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prologue.cli.main import main
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.support.elf_edit import BTI_C, MOV, NOP, ElfEdit

BL_SOMEWHERE = 0x94000010
MOV_X5_X5 = 0xAA0503E5
PACIASP = 0xD503233F
Change = Callable[[ElfEdit], None]

NATIVE = Spec()
APPLIED = Spec(form="rela-applied")
CALL_OPS_BTI = Spec(layout="4,2", bti=True)
ZEROS = Spec(zeros=True)
STOCK = Spec(contract="stock")
CALL_OPS = Spec(layout="4,2")
LABELS = Spec(labels=True)
MODULE = ModuleSpec()
UNLINKED = ModuleSpec(linked=False)

B_EQ = 0x54000040
ADD_X0_X9 = 0x8B090000
ADD_W9_W9 = 0x11000529


@dataclass(frozen=True, slots=True)
class Fixture:
    """Which mini kernel or module, what is done to it, and what is done to the twin."""

    code: str
    spec: Spec | ModuleSpec
    break_it: Change
    twin: Change
    symbol: str | None = None  # the finding's place, where it has a name
    processed: bool = False  # process the file before the changes
    pair: bool = False  # compare with the unchanged file
    twin_processed: bool | None = None
    before: Change | None = None  # what is done to the file that the pair is compared with; not in the twin
    stale_image: bool = False  # give the boot file that was made before processing; to the twin the one made after
    twin_spec: ModuleSpec | None = None


def leave(elf: ElfEdit) -> None:
    """The twin is the file as it was linked (or processed)."""


def slot_of(elf: ElfEdit, function: str) -> int:
    call_ops = "ftrace_nop_ops" in elf.symbols
    start = elf.value(function)
    first = start + 4 if elf.word(start) == BTI_C else start
    return next(slot for slot in elf.live_slots() if elf.first_slot(slot, call_ops=call_ops) == first)


def forget(elf: ElfEdit, first: int) -> None:
    """Take a pair away whose record the fixture takes, or PL206 would tell."""
    elf.set_word(first, MOV_X5_X5)


def pl101(elf: ElfEdit) -> None:
    elf.set_symbol("__start_mcount_loc", value=elf.value("__start_mcount_loc") + 4)


def pl101_twin(elf: ElfEdit) -> None:
    forget(elf, elf.record(elf.slots()[0]))
    elf.set_symbol("__start_mcount_loc", value=elf.value("__start_mcount_loc") + 8)


def pl102(elf: ElfEdit) -> None:
    one, other = elf.live_slots()[:2]
    forget(elf, elf.record(one))  # the later entry wins, so this is the function that loses its record
    struct.pack_into("<Q", elf.data, elf.rela()[other], one)


def pl102_twin(elf: ElfEdit) -> None:
    forget(elf, elf.record(elf.live_slots()[1]))
    entry = elf.rela()[elf.live_slots()[1]]
    elf.data[entry : entry + 24] = b"\0" * 24  # R_AARCH64_NONE: the record is a zero one then


def pl103(elf: ElfEdit) -> None:
    forget(elf, elf.record(elf.live_slots()[3]))
    struct.pack_into("<Q", elf.data, elf.rela()[elf.live_slots()[3]] + 8, 0x101)


def pl104(elf: ElfEdit) -> None:
    slot = elf.live_slots()[3]
    elf.set_quad(slot, elf.record(slot) + 64)


def pl105(elf: ElfEdit) -> None:
    elf.set_record(slot_of(elf, "work_leaf"), elf.value("__start_mcount_loc"))
    forget(elf, elf.value("work_leaf"))


def pl106(elf: ElfEdit) -> None:
    elf.set_record(slot_of(elf, "work_leaf"), elf.record(slot_of(elf, "work_empty")))
    forget(elf, elf.value("work_leaf"))


def pl107(elf: ElfEdit) -> None:
    one, other = elf.live_slots()[4:6]
    first, second = elf.record(one), elf.record(other)
    elf.set_record(one, second)
    elf.set_record(other, first)


def _banner(elf: ElfEdit, text: bytes) -> None:
    """Make it a kernel of some release, whose ftrace_call_adjust is inline as before 6.3."""
    elf.rename_symbol("ftrace_call_adjust", "inlined")
    elf.rename_symbol("aarch64_insn_gen_branch_link", "linux_banner")
    at = elf.offset(elf.value("die_exception"))
    elf.set_symbol("aarch64_insn_gen_branch_link", value=elf.value("die_exception"))
    elf.data[at : at + len(text)] = text


def pl108(elf: ElfEdit) -> None:
    _banner(elf, b"Linux version 6.1.0-mini\0")


def pl108_twin(elf: ElfEdit) -> None:
    _banner(elf, b"Linux version 6.15.0-mini\0")


def pl109(elf: ElfEdit) -> None:
    elf.set_symbol("work_leaf", info=0x10)  # STB_GLOBAL, STT_NOTYPE


def pl109_twin(elf: ElfEdit) -> None:
    elf.set_symbol("work_leaf", info=0x02)  # STB_LOCAL, STT_FUNC


def pl110(elf: ElfEdit) -> None:
    slot = slot_of(elf, "work_leaf")
    elf.set_record(slot, elf.record(slot) + 4)


def pl201(elf: ElfEdit) -> None:
    elf.set_word(elf.value("work_leaf") + 4, BL_SOMEWHERE)


def pl202(elf: ElfEdit) -> None:
    elf.set_word(elf.value("work_leaf"), MOV)


def pl203(elf: ElfEdit) -> None:
    start = elf.value("work_leaf")
    assert elf.word(start) == BTI_C
    elf.set_word(start, MOV)
    elf.set_word(start + 4, BTI_C)


def pl204(elf: ElfEdit) -> None:
    elf.set_word(elf.value("work_leaf") - 4, 0)


def pl205(elf: ElfEdit) -> None:
    elf.rename_symbol("aarch64_insn_gen_branch_link", "report_cfi_failure")


def pl206(elf: ElfEdit) -> None:
    """Drop the record of a function, its relocation included."""
    entry = elf.rela()[slot_of(elf, "work_leaf")]
    elf.data[entry : entry + 24] = b"\0" * 24


def pl206_twin(elf: ElfEdit) -> None:
    """Drop the record and the pair."""
    pl206(elf)
    forget(elf, elf.value("work_leaf"))


def pl207(elf: ElfEdit) -> None:
    """The pair one word later, the record too, and PACIASP where it was."""
    slot, start = slot_of(elf, "work_struct"), elf.value("work_struct")
    elf.set_word(start, PACIASP)
    elf.set_word(start + 8, NOP)
    elf.set_record(slot, start + 4)


def pl207_twin(elf: ElfEdit) -> None:
    """The same with a landing pad."""
    pl207(elf)
    elf.set_word(elf.value("work_struct"), BTI_C)


def pl301(elf: ElfEdit) -> None:
    elf.rename_symbol("work_fibonacci", "__pi_fib")


def pl301_twin(elf: ElfEdit) -> None:
    elf.rename_symbol("work_fibonacci", "_pi_fib")


def _branch(elf: ElfEdit, distance: int) -> None:
    """Make the last word before work_leaf a branch to work_leaf plus a distance."""
    place = elf.value("work_nested") + 16
    elf.set_word(place, 0x14000000 | ((elf.value("work_leaf") + distance - place) // 4) & 0x3FFFFFF)


def pl302(elf: ElfEdit) -> None:
    _branch(elf, 4)


def pl302_twin(elf: ElfEdit) -> None:
    _branch(elf, 0)


def _table_entry(elf: ElfEdit) -> int:
    """File offset of the addend that will be the first pointer of work_table."""
    return elf.rela()[elf.value("work_table")] + 16


def pl303(elf: ElfEdit) -> None:
    at = _table_entry(elf)
    struct.pack_into("<q", elf.data, at, struct.unpack_from("<q", elf.data, at)[0] + 4)


def pl303_twin(elf: ElfEdit) -> None:
    at = _table_entry(elf)
    struct.pack_into("<q", elf.data, at, struct.unpack_from("<q", elf.data, at)[0] + 8)


def pl304(elf: ElfEdit) -> None:
    elf.set_word(elf.value("work_leaf") + 8, ADD_X0_X9)


def pl304_twin(elf: ElfEdit) -> None:
    """A write comes first."""
    elf.set_word(elf.value("work_leaf") + 8, 0x52800009)  # MOV W9, #0
    elf.set_word(elf.value("work_leaf") + 12, ADD_W9_W9)


def _aim_label(elf: ElfEdit, place: int) -> None:
    """Let the jump label's entry name another instruction."""
    entry = next(s["sh_addr"] for s in elf.elf.iter_sections() if s.name == "__jump_table")
    struct.pack_into("<i", elf.data, elf.offset(entry), place - entry)


def pl305(elf: ElfEdit) -> None:
    _aim_label(elf, elf.value("work_leaf") + 4)


def pl305_twin(elf: ElfEdit) -> None:
    """A NOP that is in nobody's pair."""
    elf.set_word(elf.value("work_nested") + 16, NOP)
    _aim_label(elf, elf.value("work_nested") + 16)


def pl306(elf: ElfEdit) -> None:
    elf.set_symbol("ftrace_caller", value=elf.value("work_leaf") + 4 + (128 << 20) + 4096)


def pl306_twin(elf: ElfEdit) -> None:
    elf.set_symbol("ftrace_caller", value=elf.value("work_empty") + 4 + (128 << 20) - 4096)


def pl308(elf: ElfEdit) -> None:
    elf.set_word(elf.value("label_user"), MOV_X5_X5)


def pl308_twin(elf: ElfEdit) -> None:
    elf.set_word(elf.value("label_user"), 0x14000002)  # B label_target


def pl309(elf: ElfEdit) -> None:
    elf.set_word(elf.value("label_user"), 0x14000001)


def pl310(elf: ElfEdit) -> None:
    elf.set_word(elf.value("label_user"), B_EQ)


def pl401(elf: ElfEdit) -> None:
    for slot in elf.live_slots():
        elf.set_word(elf.record(slot), MOV)
        elf.set_record(slot, elf.record(slot) + 4)


def pl402(elf: ElfEdit) -> None:
    marker = elf.value("__ftrace_prologue_marker")
    elf.set_quad(marker + 8, 1 | 1 << 32)
    elf.set_quad(marker + 16, len(elf.live_slots()))


def pl403(elf: ElfEdit) -> None:
    elf.set_word(elf.value("work_nested") + 16, NOP)


def sign(elf: ElfEdit) -> None:
    """Append what looks like a signature."""
    elf.data += b"signature" + struct.pack(">BBBBB3xI", 0, 0, 2, 0, 0, 9) + b"~Module signature appended~\n"


def pl405(elf: ElfEdit) -> None:
    """A signature that is longer than the file."""
    sign(elf)
    struct.pack_into(">I", elf.data, len(elf.data) - 32, len(elf.data))


FIXTURES = (
    Fixture("PL101", NATIVE, pl101, pl101_twin),
    Fixture("PL102", NATIVE, pl102, pl102_twin),
    Fixture("PL103", NATIVE, pl103, leave),
    Fixture("PL104", APPLIED, pl104, leave, twin_processed=True),
    Fixture("PL105", NATIVE, pl105, leave),
    Fixture("PL106", NATIVE, pl106, leave, symbol="work_empty"),
    Fixture("PL107", ZEROS, pl107, leave),
    Fixture("PL108", ZEROS, pl108, pl108_twin),
    Fixture("PL109", NATIVE, pl109, pl109_twin, symbol="work_leaf"),
    Fixture("PL110", NATIVE, pl110, leave, symbol="work_leaf", twin_processed=True),
    Fixture("PL201", NATIVE, pl201, leave, symbol="work_leaf"),
    Fixture("PL202", NATIVE, pl202, leave, symbol="work_leaf", twin_processed=True),
    Fixture("PL203", CALL_OPS_BTI, pl203, leave, symbol="work_leaf", twin_processed=True),
    Fixture("PL204", CALL_OPS_BTI, pl204, leave),
    Fixture("PL205", CALL_OPS, pl205, leave, symbol="report_cfi_failure"),
    Fixture("PL206", NATIVE, pl206, pl206_twin, symbol="work_leaf"),
    Fixture("PL207", NATIVE, pl207, pl207_twin, symbol="work_struct"),
    Fixture("PL301", NATIVE, pl301, pl301_twin, symbol="__pi_fib"),
    Fixture("PL302", NATIVE, pl302, pl302_twin, symbol="work_nested"),
    Fixture("PL303", NATIVE, pl303, pl303_twin, symbol="work_table"),
    Fixture("PL304", NATIVE, pl304, pl304_twin, symbol="work_leaf"),
    Fixture("PL305", LABELS, pl305, pl305_twin, symbol="work_leaf"),
    Fixture("PL306", NATIVE, pl306, pl306_twin),
    Fixture("PL307", UNLINKED, leave, leave, symbol="module_leaf", twin_spec=MODULE),
    Fixture("PL308", LABELS, pl308, pl308_twin, symbol="label_user"),
    Fixture("PL309", LABELS, pl309, pl308_twin, symbol="label_user"),
    Fixture("PL310", LABELS, leave, leave, symbol="label_user", pair=True, before=pl310),
    Fixture("PL401", STOCK, pl401, leave),
    Fixture("PL402", NATIVE, pl402, leave, twin_processed=True),
    Fixture("PL403", NATIVE, pl403, leave, symbol="work_nested", processed=True, pair=True),
    Fixture("PL404", NATIVE, leave, leave, processed=True, stale_image=True),
    Fixture("PL405", MODULE, pl405, sign),
    Fixture("PL406", MODULE, leave, leave, processed=True, twin_processed=False, pair=True),
)


def prepare(fixture: Fixture, vmlinux: Path, *, twin: bool) -> list[str]:
    """Change the file; arguments for ``prologue verify``."""
    before, image = vmlinux.with_name("before"), vmlinux.with_name("Image")
    before.write_bytes(vmlinux.read_bytes())
    if fixture.before is not None and not twin:
        elf = ElfEdit(before)
        fixture.before(elf)
        elf.save(before)
    if fixture.stale_image:
        assert main(["image", str(vmlinux), "-o", str(image)]) == 0
    processed = fixture.processed
    if twin and fixture.twin_processed is not None:
        processed = fixture.twin_processed
    if processed:
        contract = "auto" if isinstance(fixture.spec, Spec) else "native"
        assert main(["patch", str(vmlinux), "--in-place", "--contract", contract]) == 0
    if fixture.stale_image and twin:
        assert main(["image", str(vmlinux), "-o", str(image)]) == 0
    elf = ElfEdit(vmlinux)
    (fixture.twin if twin else fixture.break_it)(elf)
    elf.save(vmlinux)
    more = ["--against", str(before)] if fixture.pair else ["--image", str(image)] if fixture.stale_image else []
    return [str(vmlinux), *more]
