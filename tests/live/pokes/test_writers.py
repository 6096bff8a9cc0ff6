"""Who wrote: what is between the mechanism and the store decides, never a name alone."""

from __future__ import annotations

import pytest

from prologue.live.pokes.recording import Function
from prologue.live.pokes.writers import NamedPlace, NameTable, writer_of

FTRACE = ("copy_to_kernel_nofault", "__aarch64_insn_write", "aarch64_insn_patch_text_nosync", "ftrace_make_call")


def chain(*names: str) -> list[NamedPlace | None]:
    """Places; ``name@module`` is of a module, and an empty name is no place that is known."""
    return [NamedPlace(name.partition("@")[0], name.partition("@")[2], 4) if name else None for name in names]


@pytest.mark.parametrize(
    ("names", "mechanism"),
    [
        (FTRACE, "ftrace"),
        (("copy_to_kernel_nofault", "aarch64_insn_write", "ftrace_make_nop.part.0"), "ftrace"),
        (("__arch_copy_to_user", *FTRACE), "ftrace"),  # 5.10
        (("aarch64_insn_write_literals_u64", "ftrace_set_literals", "arch_ftrace_update_code"), "ftrace"),
        (("aarch64_insn_write_literals_u64", "arch_ftrace_update_code"), "ftrace"),  # the rest is inlined
        (("arch_ftrace_make_records", "ftrace_init"), "ftrace"),
        (("__pi_relocate_kernel", "__pi_early_map_kernel"), "relocation"),
        (("patch_alternative", "__apply_alternatives"), "alternatives"),
        (("alt_cb_patch_nops", "__apply_alternatives", "multi_cpu_stop"), "alternatives"),
        (("__memcpy", "text_poke_memcpy", "__text_poke", "aarch64_insn_copy", "bpf_arch_text_copy"), "BPF"),
        (("__memcpy", "__copy_hyp_vect_bpi", "kvm_setup_bhb_slot.part.0"), "spectre vectors"),
        (("skip_pgd", "kpti_install_ng_mappings", "cpu_enable_non_boot_scope_capabilities"), "KPTI flag"),
        (("__idmap_kpti_secondary", "kpti_install_ng_mappings"), "KPTI flag"),
    ],
)
def test_known_writers(names: tuple[str, ...], mechanism: str) -> None:
    assert writer_of(chain(*names)).mechanism == mechanism


@pytest.mark.parametrize(
    "names",
    [
        ("hook@rootkit", *FTRACE),  # a callback of ftrace's own callers, in a module
        ("ftrace_make_call@rootkit",),
        ("__aarch64_insn_write", "aarch64_insn_patch_text_nosync", "hook@rootkit"),
        ("vfs_read", "ftrace_make_call"),
        ("copy_to_kernel_nofault", "el1h_64_irq_handler", "el1h_64_irq", "ftrace_make_call"),
        ("alt_cb_patch_nops", "el1h_64_sync", "__apply_alternatives"),
        ("hook@rootkit", "__apply_alternatives"),
        ("copy_to_kernel_nofault", "", "ftrace_make_call"),
        ("aarch64_insn_write_literals_u64", "hook@rootkit", "arch_ftrace_update_code"),
        ("ftrace_modify_all_code", "arch_ftrace_update_code"),
        ("copy_to_kernel_nofault",),
        ("__arch_copy_to_user", "vfs_read"),
    ],
)
def test_unknown_writers(names: tuple[str, ...]) -> None:
    writer = writer_of(chain(*names))
    assert writer.mechanism is None
    assert writer.function.startswith(names[0].partition("@")[0])


def test_a_runtime_constant_is_written_by_any_function_of_the_kernel() -> None:
    assert writer_of(chain("filename_init"), constant=True).mechanism == "runtime constants"
    assert writer_of(chain("hook@rootkit"), constant=True).mechanism is None


POKE = ("copy_to_kernel_nofault", "__aarch64_insn_write", "aarch64_insn_patch_text_nosync")


@pytest.mark.parametrize(
    ("names", "function"),
    [
        ((*POKE, "futex_init", "do_one_initcall"), "futex_init"),
        ((*POKE, "__runtime_fixup_16", "futex_init"), "futex_init"),
        ((*POKE, "__runtime_fixup_mask"), "__runtime_fixup_mask"),  # no callers are known
        ((*POKE, "another_init"), "another_init"),
    ],
)
def test_a_runtime_constant_that_is_written_through_helpers(names: tuple[str, ...], function: str) -> None:
    """As 7.3 does: the function that made the value is the writer, not the helper that stored."""
    writer = writer_of(chain(*names), constant=True)
    assert (writer.mechanism, writer.function) == ("runtime constants", function)


@pytest.mark.parametrize(
    "names",
    [
        (*POKE, "hook@rootkit"),
        (*POKE, "__runtime_fixup_16", "hook@rootkit"),
        (*POKE, "el1h_64_irq", "futex_init"),
        POKE,
    ],
)
def test_helpers_alone_do_not_make_a_runtime_constant(names: tuple[str, ...]) -> None:
    assert writer_of(chain(*names), constant=True).mechanism is None


def test_another_mechanism_at_a_runtime_constant_keeps_its_name() -> None:
    assert writer_of(chain(*FTRACE), constant=True).mechanism == "ftrace"


def test_the_fixups_of_an_unmarked_constant() -> None:
    """Recordings by a recorder that did not know constants of this kind."""
    for names in ((*POKE, "futex_init"), (*POKE, "__runtime_fixup_mask", "another_init")):
        assert writer_of(chain(*names)).mechanism == "runtime constants"


def test_names_of_modules_hold_while_they_are_loaded() -> None:
    table = NameTable(
        (
            Function(start=0x1000, end=0x2000, name="text", owner="old", since=5, until=9),
            Function(start=0x1000, end=0x2000, name="text", owner="new", since=9),
        )
    )
    names = [table.text(0x1010, time) for time in (4, 5, 8, 9, 100)]
    assert names == ["0x1010", "text+0x10 [old]", "text+0x10 [old]", "text+0x10 [new]", "text+0x10 [new]"]
