"""Numbers of things, and what may have been meant."""

from __future__ import annotations

import pytest

from prologue.words import counted, meant


@pytest.mark.parametrize(
    ("count", "plural", "said"), [(0, "", "0 sites"), (1, "", "1 site"), (2000, "", "2,000 sites"), (2, "of", "2 of")]
)
def test_one_and_many(count: int, plural: str, said: str) -> None:
    assert counted(count, "site", plural=plural) == said


def test_a_typing_error_among_a_kernels_names() -> None:
    """One letter missing, doubled, wrong, or in the other's place, anywhere in the word."""
    name = "ftrace_init_nop"
    names = [
        name,
        *(f"{verb}_{noun}_{n}" for n in range(100) for verb in ("get", "do_init") for noun in ("ftrace", "x")),
    ]
    for k in range(len(name)):
        head, letter, tail = name[:k], name[k], name[k + 1 :]
        for typed in (head + tail, head + 2 * letter + tail, f"{head}X{tail}", head + tail[:1] + letter + tail[1:]):
            assert typed == name or meant(typed, names).startswith(f"did you mean {name}"), typed


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("verfy", "did you mean verify?"),
        ("boots", "did you mean boot?"),
        ("bo", "did you mean boot?"),
        ("frobnicate", ""),
    ],
)
def test_near_words(word: str, said: str) -> None:
    assert meant(word, ["verify", "boot", "build"]) == said
