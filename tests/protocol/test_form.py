"""Files of protocols: what is read, and what is refused."""

from __future__ import annotations

import pytest

from prologue.errors import InputError
from prologue.protocol.assembly import parse_program
from prologue.protocol.form import read_protocol
from prologue.protocol.promela import translate

GOOD = """
title = "one write"
code = "f: NOP; RET"
[tasks.patcher]
place = 0
program = 'patch_text [f], "B f"'
"""


def test_a_step_of_the_kernel_is_several_lines() -> None:
    lines = parse_program('here: patch_text [f], "B f" // as aarch64_insn_patch_text_nosync()', "test")
    assert [str(line.operation) for line in lines] == [
        'STR "B f", [f]', "DC CVAU, [f]", "DSB ISH", "IC IVAU, [f]", "DSB ISH", "ISB",
    ]  # fmt: skip
    assert {line.step for line in lines} == {'patch_text([f], "B f")'}
    assert [line.labels for line in lines] == [("here",), (), (), (), (), ()]


def test_a_whole_file() -> None:
    protocol = read_protocol(GOOD, "one")
    (variant,) = protocol.variants
    assert (variant.name, variant.expect) == ("only", "safe")
    assert "#define DEPTH 2\n" in translate(variant.model)
    assert "write_word(at[0], 0, " in translate(variant.model)


def test_the_same_reason_is_written_out() -> None:
    text = f'{GOOD}[[variants]]\nname = "only"\nexpect = "safe"\n[variants.spare]\n'
    (variant,) = read_protocol(text + 'ISB = "a"\n"DSB ISH" = "the same"\nIC = "b"', "one").variants
    assert variant.spare == {"ISB": "a", "DSB ISH": "a", "IC": "b"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "one write"', "", "one: has no 'title'"),
        ("title", "tilte", "unknown key 'tilte'"),
        ("place", "palce", "unknown key 'palce'"),
        ("one write", 'one "write', "is not TOML"),
        ("f: NOP", "f: FNOP", "unknown instruction or step 'FNOP'"),
        ("RET", "RET X1", "RET does not take the operands of 'RET X1'"),
        ("RET", "DSB OSH", "DSB does not take the operands of 'DSB OSH'"),
        ("patch_text [f]", "patch_text [g]", "has no label 'g'"),
        ("patch_text [f],", "patch_text", "patch_text does not take the operands"),
        ("B f", "B g", "has no label 'g'"),
        ("f: NOP", "f: NOP; f: NOP", "has two labels 'f'"),
        ("NOP; RET", "NOP; RET; g:", "no instruction after the label g"),
        ("NOP; RET", "MOV X1, #64; RET", "#64 is too large"),
        ("NOP; RET", "BRK; RET", "need a handler"),
        ("NOP; RET", "NOP;" * 200, "instructions; 126 fit"),
        ("place = 0", "place = 2", "patcher is on CPU 2; there are 2 CPUs, from 0"),
    ],
)
def test_what_is_refused(old: str, new: str, message: str) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    if "f: NOP; f" not in text and "g:" not in text and "[g]" not in text:
        text += "[tasks.caller]\nprogram = 'BL f'\n"
    with pytest.raises(InputError) as refused:
        translate(read_protocol(text, "one").variants[0].model)
    assert message in str(refused.value)
    assert str(refused.value).startswith("one")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("key", "message"), [
    ('promises = ["peace"]', "unknown promise 'peace'; there are returns, traced, decodes"),
    ('[[variants]]\nname = "x"\nexpect = "perhaps"', "variant x expects 'perhaps'; it must be safe or one of"),
])  # fmt: skip
def test_unknown_words(key: str, message: str) -> None:
    text = GOOD + key if key.startswith("[[") else f"{key}\n{GOOD}"
    with pytest.raises(InputError, match=r"one") as refused:
        read_protocol(text, "one")
    assert message in str(refused.value)
