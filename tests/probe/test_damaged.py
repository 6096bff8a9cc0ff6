"""Damaged kernels: one clear error, or an answer, and never anything else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from prologue.errors import InputError
from prologue.kernel.kernel import Kernel
from prologue.probe.language import parse_request
from prologue.probe.prober import Prober
from tests.probe.made_kernel import TOOLS, make
from tests.support.needs import needs_tools


@pytest.mark.thorough
def test_damaged_tables(tmp_path: Path) -> None:
    needs_tools(*TOOLS)
    out, damaged, refused, answered = make(tmp_path), tmp_path / "damaged", 0, 0
    whole = out.read_bytes()
    names = (".kallsyms", ".altinstructions", ".rodata", "__bug_table", "_kprobe_blacklist")
    sections = [section for section in Kernel(out).image.sections if section.name in names]
    chance = random.Random(1)  # noqa: S311 - it guards nothing
    for _ in range(100):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            section = chance.choice(sections)
            content[section.offset + chance.randrange(section.size)] = chance.choice((0, 255, chance.randrange(256)))
        damaged.write_bytes(content)
        try:
            prober = Prober(Kernel(damaged))
            verdicts = [probe for name in ("traced", "far+12") for probe in prober.judge(parse_request(name))]
            answered += len(verdicts) > 1
        except InputError:
            refused += 1
    assert refused > 5
    assert answered > 50
    assert refused + answered == 100
