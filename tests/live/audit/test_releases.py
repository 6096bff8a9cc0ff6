"""What an audit says where it does not know: releases never compared, callbacks, constants without a variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.errors import UNDECIDED
from prologue.live.audit.audit_modules import _find
from prologue.releases import COMPARED, not_known
from tests.live.audit.made_kernel import POINTER, audit, constants, make, moves
from tests.support.elf_edit import ElfEdit
from tests.support.needs import needs_mini_kernel_tools
from tests.support.tool import Tool, as_format

AGREED = dict.fromkeys(("first", "second", "third"), POINTER)


@pytest.fixture(autouse=True)
def _tools() -> None:
    needs_mini_kernel_tools()


@pytest.mark.thorough
@pytest.mark.parametrize("release", ["5.15.0-test", "6.6.1", "8.0.0", "none"])
def test_a_release_that_was_never_compared_is_not_accused(release: str, tmp_path: Path, tool: Tool) -> None:
    vmlinux = make(tmp_path, release)
    changes = constants(vmlinux, AGREED)
    audit(tool, vmlinux, changes)  # all that fits, fits
    plain = ElfEdit(vmlinux).value("plain")
    changes |= {plain: 0xD503201F, plain + 4: 0xD503201F, ElfEdit(vmlinux).value("first"): 0xD2800000}
    data = audit(tool, vmlinux, changes, "--json", status=UNDECIDED).json
    assert (data["findings"], data["passed"]) == ([], False)
    assert data["undecided"] == {"restless": 0, "lacking": 0, "unknown": 3, "hooks": 0, "lists": 0}
    assert [(word["symbol"], word["words"]) for word in data["unknown"]] == [("plain", 2), ("first", 1)]
    assert all("not known" in word["message"] for word in data["unknown"])
    assert {word["memory"] for word in data["unknown"]} == {str(vmlinux.with_name("core"))}
    for options in ((), ("--allow-undecided",)):
        text = audit(tool, vmlinux, changes, *options, status=UNDECIDED).out
        assert f"{vmlinux.with_name('core')}: {vmlinux}: not decided: 2\n  plain (" in text
        assert "3 words not decided" in text.splitlines()[-1]
    for form in ("sarif", "junit"):
        report = audit(tool, vmlinux, changes, *as_format(form), status=UNDECIDED).out
        assert "is not known" in report
        assert "first (" in report  # which word, as in the text


@pytest.mark.thorough
@pytest.mark.parametrize("release", [f"{major}.{minor}.9-test" for major, minor in COMPARED])
def test_one_that_was_compared_is(release: str, tmp_path: Path, tool: Tool) -> None:
    vmlinux = make(tmp_path, release)
    changes = constants(vmlinux, AGREED) | {ElfEdit(vmlinux).value("plain"): 0xD503201F}
    data = audit(tool, vmlinux, changes, "--json", status=1).json
    assert [finding["code"] for finding in data["findings"]] == ["PL503"]


def test_what_is_known_is_said() -> None:
    assert not_known("6.12.107+deb13-arm64") == ""
    assert not_known("6.6.3") == "not known for 6.6"
    assert "does not name its release" in not_known("")


@pytest.mark.parametrize("marked", [False, True])
def test_callbacks_of_both_forms(tmp_path: Path, *, marked: bool, tool: Tool) -> None:
    """Before 6.1 a callback has the number after those of all capabilities; 5.10's vectors have five words."""
    vmlinux = make(tmp_path, "6.1.0" if marked else "5.10.0", marked=marked)
    vector = ElfEdit(vmlinux).value("vector")
    changes = constants(vmlinux, AGREED)
    branch = [*moves(0, 0x12_3456_7804)[:3], 0xD61F0000]
    changes |= {vector + 4 + 4 * k: word for k, word in enumerate(branch)}
    audit(tool, vmlinux, changes)
    data = audit(tool, vmlinux, changes | {vector: 0xD503201F}, "--json", status=1).json
    assert {finding["code"] for finding in data["findings"]} == {"PL508"}


def test_a_callback_that_is_not_known(tmp_path: Path, tool: Tool) -> None:
    vmlinux = make(tmp_path, "7.3.0", marked=True)
    changes = constants(vmlinux, AGREED) | {ElfEdit(vmlinux).value("made"): 0xD2800103}
    data = audit(tool, vmlinux, changes, "--json", status=UNDECIDED).json
    assert (data["findings"], data["undecided"]["unknown"]) == ([], 1)
    assert "made_up_callback, which prologue does not know" in data["unknown"][0]["message"]


@pytest.mark.parametrize(
    ("places", "values", "status", "wrong"),
    [
        (3, (POINTER,) * 3, 0, set()),
        (3, (POINTER, POINTER, POINTER ^ 0x10000), 1, {("third", 4)}),
        (2, (POINTER, POINTER), 0, set()),
        (2, (POINTER, POINTER ^ 0x10000), 1, {("first", 4), ("second", 4)}),  # which of the two, nothing says
        (1, (POINTER,), UNDECIDED, set()),  # one place cannot agree
    ],
)
def test_constants_without_a_variable(
    places: int, values: tuple[int, ...], status: int, wrong: set[tuple[str, int]], *, tmp_path: Path,
    tool: Tool,
) -> None:  # fmt: skip
    vmlinux = make(tmp_path, "7.3.0", places=places)
    changes = constants(vmlinux, dict(zip(AGREED, values, strict=False)))
    data = audit(tool, vmlinux, changes, "--json", status=status).json
    assert {(finding["symbol"], finding["symbol_offset"]) for finding in data["findings"]} == wrong
    (row,) = [row for row in data["files"][0]["mechanisms"] if row["mechanism"] == "runtime constants"]
    agreed = status == 0
    assert (data["files"][0]["agreements"] != []) == agreed
    assert row["unsure"] == (4 if places == 1 else 0)
    if agreed:
        assert row["agreed"] == 4 * places
        agreement = (
            f"decided by agreement: {4 * places} words of runtime constants: no variable says them, their places"
        )
        assert f"{agreement} agree (gone at {places} places)" in audit(tool, vmlinux, changes).out


def test_the_loader_searches_names_by_halves() -> None:
    """Of a name that is exported twice, the one in the middle is found, not the first."""
    assert _find([([b"a", b"memset", b"memset", b"z"], [0, 1, 2, 3])], b"memset") == 2
    assert _find([([b"memset", b"memset"], [0, 1])], b"memset") == 1
    assert _find([([b"a", b"b"], [0, 1])], b"c") is None
    assert _find([([], [])], b"c") is None
