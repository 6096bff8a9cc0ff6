"""The rules that decide writing: ``patch`` refuses a file in which one of them fires (decision 4).

The build step loads these and no others, because it must start fast. So this list says which they are, not the rules.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from prologue.rules.base import Rule

# Modules of this room, in the order of their codes.
_MODULES: Final = (
    "pl101_mcount_bounds_missing",
    "pl102_record_source_ambiguous",
    "pl103_record_reloc_type",
    "pl105_record_outside_text",
    "pl106_record_duplicate",
    "pl107_records_unsorted",
    "pl108_record_zero_unsafe",
    "pl110_records_mixed_form",
    "pl111_records_not_loaded",
    "pl112_record_table_lost",
    "pl113_offsets_relocated",
    "pl114_relocations_cut_off",
    "pl115_linked_table_lost",
    "pl201_site_not_pair",
    "pl202_sites_partly_patched",
    "pl203_site_after_bti_broken",
    "pl204_callops_literal_broken",
    "pl205_callops_with_kcfi",
    "pl207_paciasp_before_pair",
    "pl208_site_of_other_layout",
    "pl401_kernel_cannot_accept_moved_records",
    "pl402_marker_disagrees",
    "pl405_signature_broken",
    "pl407_kernel_ignores_marker",
    "pl408_bench_variant",
)


def load_rules(modules: tuple[str, ...]) -> tuple[Rule, ...]:
    """Load rules by the names of their modules."""
    return tuple(import_module(f"prologue.rules.{name}").RULE for name in modules)


DECIDING: Final = load_rules(_MODULES)
