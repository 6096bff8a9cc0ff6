"""``prologue verify``: settings, baselines, reports and exit codes, as a release engineer meets them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from prologue.cli.main import main
from prologue.elf.flat import flat_sections
from prologue.elf.image import ElfImage
from prologue.rules.registry import RULES
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.rules.code import read_x9
from tests.rules.records import lose_symbol
from tests.rules.sites import call_in_second_slot
from tests.support.elf_edit import ElfEdit, edit, tiny_elf
from tests.support.tool import Tool, as_format

Mini = Callable[[Spec], Path]


def broken(vmlinux: Path, *changes: Callable[[ElfEdit], None]) -> Path:
    with edit(vmlinux) as elf:
        for change in changes:
            change(elf)
    return vmlinux


def verify(*arguments: object) -> int:
    return main(["verify", *map(str, arguments)])


def processed(vmlinux: Path) -> Path:
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    return vmlinux


def test_a_baseline_is_written_filled_in_and_used(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux, baseline = broken(mini(Spec()), read_x9), tmp_path / "known.toml"
    assert verify(vmlinux, "--save-baseline", baseline) == 1
    # nobody has answered for it yet
    assert "fill it in" in tool("verify", vmlinux, "--baseline", baseline, status=2).err
    text = baseline.read_text().replace('reason = ""', 'reason = "hand-written"')
    baseline.write_text(text.replace('owner = ""', 'owner = "a maintainer"'))
    assert "1 known finding" in tool("verify", vmlinux, "--baseline", baseline).out.splitlines()[-1]
    data = tool("verify", vmlinux, "--baseline", baseline, "--json").json
    assert data["findings"] == []
    assert data["baselined"][0]["owner"] == "a maintainer"
    # An error may be known. Another one is new.
    broken(vmlinux, call_in_second_slot)
    assert verify(vmlinux, "--baseline", baseline) == 1


def test_what_follows_from_a_known_finding_counts_as_a_root_cause(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux, baseline = broken(mini(Spec()), call_in_second_slot), tmp_path / "known.toml"
    data = tool("verify", vmlinux, "--require", "untouched", "--json", status=1).json
    assert [finding["follows_from"] for finding in data["findings"]] == [[], ["PL201"]]
    baseline.write_text('[[known]]\nrule = "PL201"\nreason = "lab"\nowner = "a maintainer"\n')
    data = tool("verify", vmlinux, "--require", "untouched", "--baseline", baseline, "--json", status=1).json
    assert [(f["code"], f["follows_from"]) for f in data["findings"]] == [("REQUIRE", [])]
    assert data["summary"].startswith("1 file: 1 fatal, 1 known finding (")


def test_entries_of_rules_that_did_not_run_are_not_called_stale(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    """PL404 needs an Image, PL307 a module; nothing is known of a file that could not be read."""
    vmlinux, cut, baseline = mini(Spec()), tmp_path / "cut.ko", tmp_path / "known.toml"
    cut.write_bytes(vmlinux.read_bytes()[:1000])
    entries = [("PL404", "*"), ("PL307", "*"), ("PL105", "cut.ko"), ("PL105", "vmlinux")]
    baseline.write_text(
        "".join(
            f'[[known]]\nrule = "{code}"\nfile = "{name}"\nreason = "lab"\nowner = "a maintainer"\n'
            for code, name in entries
        )
    )
    data = tool("verify", vmlinux, cut, "--baseline", baseline, "--json", status=2).json
    stale = [note for note in data["notes"] if "remove the entry" in note]
    assert stale == [f"baseline {baseline}: PL105 file 'vmlinux': covers nothing any more: remove the entry"]


def test_one_nop_may_be_that_of_other_flags(mini: Mini, tool: Tool) -> None:
    """So looks an object of =1, and a pair whose first word was overwritten does not."""
    vmlinux = broken(mini(Spec()), call_in_second_slot)
    assert "objects of -fpatchable-function-entry=1 look like that" in tool("verify", vmlinux, status=1).out
    broken(vmlinux, lambda elf: elf.set_word(elf.value("work_leaf"), 0xA9BF7BFD))
    assert "to do: find what wrote there after the compiler; link again" in tool("verify", vmlinux, status=1).out


@pytest.mark.thorough
def test_settings_stand_beside_the_file(
    mini: Mini, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    """Wherever the command runs; a file in a directory above, or here, switches nothing off."""
    build = tmp_path / "above" / "build"
    build.mkdir(parents=True)
    vmlinux = Path(shutil.copy(broken(mini(Spec(zeros=True)), read_x9), build / "vmlinux"))
    (build.parent / ".prologue.toml").write_text('ignore = ["PL304"]\n')
    monkeypatch.chdir(build.parent)
    assert f"{build.parent / '.prologue.toml'}: not used" in tool("verify", vmlinux, status=1).out
    said = tool("verify", vmlinux, "--config", ".prologue.toml").out
    assert f"note: ignored by {build.parent / '.prologue.toml'}, did not run: PL304 x9-live-at-entry\n" in said
    assert said.endswith(" rules that apply ran)\n")
    shutil.move(".prologue.toml", build)
    assert verify(vmlinux) == 0
    assert verify(vmlinux, "--no-config") == 1
    (build / ".prologue.toml").write_text('ignore = ["PL9"]\n')
    assert verify(vmlinux) == 2
    other = tmp_path / "other.toml"
    other.write_text("release = true\n")
    broken(processed(vmlinux), lose_symbol)
    assert verify(vmlinux, "--config", other, "--ignore", "PL304") == 1
    assert verify(vmlinux, "--no-config", "--ignore", "PL304") == 0


def test_one_unreadable_file_does_not_hide_the_others(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux = broken(mini(Spec()), call_in_second_slot)
    bad = tmp_path / "bad"
    bad.write_text("no kernel\n")
    said = tool("verify", bad, vmlinux, status=2)
    assert "PL201" in said.out
    assert "a text file" in said.err
    assert "a text file" in str(tool("verify", bad, vmlinux, "--json", status=2).json["errors"])
    (judged,) = tool("verify", bad, vmlinux, "--format", "sarif", status=2).json["runs"]
    assert judged["invocations"][0]["executionSuccessful"] is False
    suites = ET.fromstring(tool("verify", bad, vmlinux, "--format", "junit", status=2).out.encode())  # noqa: S314 - ours
    assert [(suite.get("failures"), suite.get("errors")) for suite in suites] == [("0", "1"), ("1", "0")]


@pytest.mark.parametrize("longer", [False, True])
def test_another_kernel_is_not_called_equal(
    mini: Callable[[Spec | ModuleSpec], Path], tmp_path: Path, longer: bool, tool: Tool
) -> None:
    """Neither a file of another build, nor one of another size that names none."""
    path, before = mini(Spec() if longer else ModuleSpec()), tmp_path / "before"
    elf = ElfEdit(path)
    if longer:
        elf.data += bytes(8)
    else:
        note = elf.elf.get_section_by_name(".note.gnu.build-id")
        elf.data[note["sh_offset"] + 16] ^= 0xFF
    elf.save(before)
    said = tool("verify", path, "--against", before, status=1).out
    assert "differs from" not in said
    reason = "the files have different sizes" if longer else "another build: "
    assert f"not compared with {before} byte by byte: {reason}" in said
    assert said.count("PL403") == 1


def test_the_account_of_a_pair(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux = mini(Spec())
    before = tmp_path / "before"
    before.write_bytes(vmlinux.read_bytes())
    assert "differs from" in tool("verify", vmlinux, "--against", before).out
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    said = tool("verify", vmlinux, "--against", before).out
    assert "sites" in said
    assert "records" in said
    assert "2 words of the marker" in said
    assert "unexplained" not in said


@pytest.mark.parametrize("packed", ["flat", "gzip"])
def test_the_image_of_this_vmlinux(mini: Mini, tmp_path: Path, packed: str, tool: Tool) -> None:
    import gzip

    vmlinux, image = mini(Spec()), tmp_path / "Image"
    assert main(["image", str(vmlinux), "-o", str(image)]) == 0
    if packed == "gzip":
        image.write_bytes(gzip.compress(image.read_bytes()))
    assert verify(vmlinux, "--image", image) == 0
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    assert "PL404" in tool("verify", vmlinux, "--image", image, status=1).out
    assert verify(vmlinux, "--image", tmp_path / "absent") == 2


@pytest.mark.parametrize("where", ["gap", "tail"])
def test_an_image_holds_nothing_that_its_vmlinux_has_not(mini: Mini, tmp_path: Path, where: str, tool: Tool) -> None:
    vmlinux, image = mini(Spec()), tmp_path / "Image"
    assert main(["image", str(vmlinux), "-o", str(image)]) == 0
    flat = bytearray(image.read_bytes())
    sections = [(at, at + section.size) for at, section in flat_sections(ElfImage(vmlinux))]
    gap = next(end for (_, end), (start, _) in pairwise(sections) if start - end >= 4)
    if where == "tail":
        image.write_bytes(flat + bytes(4096))
        assert verify(vmlinux, "--image", image) == 0  # zboot files are padded
        flat += bytes(4096)
        gap = len(flat) - 4
    flat[gap : gap + 4] = b"EVIL"
    image.write_bytes(flat)
    said = tool("verify", vmlinux, "--image", image, status=1).out
    assert f"has 4 bytes from {gap:#x} on where vmlinux has none" in said


def test_what_kbuild_takes_out_of_vmlinux_unstripped_is_in_no_image(tmp_path: Path) -> None:
    sections = {".head.text": (0x10000, b"\x1f\x20\x03\xd5" * 4), ".modinfo": (0x11000, b"name=value\0")}
    path = tmp_path / "vmlinux.unstripped"
    path.write_bytes(tiny_elf(sections))
    assert [(at, section.name) for at, section in flat_sections(ElfImage(path))] == [(0, ".head.text")]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (("--select", "PL5"), "judge live text or recorded writes"),
        (("--select", "PL307,PL405"), "PL307, PL405 judge module"),
        (("--select", "PL403"), "judge pair before/after"),
        (("--select", "PL404,PL201", "--ignore", "PL2"), "judge flat Image"),
        (("--ignore", "PL1,PL2,PL3,PL401,PL402,PL407,PL408"), "no rule that is left applies"),
        (("--ignore", "PL"), "every rule is ignored"),
        (("--select", "PL2", "--ignore", "PL2"), "every selected rule is also ignored"),
        (("--select=",), "--select names no rule"),
        (("--select", " , ", "--select", ""), "--select names no rule"),
        (("--select", "PL20l"), "did you mean PL20"),
        (("--ignore", "site-no-pair"), "did you mean site-not-pair"),
        (("--select", "all"), "no rule 'all': `prologue rules` lists them"),
    ],
)
@pytest.mark.parametrize("where", ["command line", "settings"])
def test_a_selection_of_which_nothing_applies_is_no_clean_file(
    mini: Mini, tool: Tool, rules: tuple[str, ...], said: str, where: str
) -> None:
    vmlinux = mini(Spec())
    if where == "settings":
        if rules[0].startswith("--select") and "names no rule" in said:
            lines, said = "select = []\n", "select names no rule"
        else:
            pairs = zip(rules[::2], rules[1::2], strict=True)
            lines = "".join(f"{option[2:]} = {json.dumps(names.split(','))}\n" for option, names in pairs)
        vmlinux.with_name(".prologue.toml").write_text(lines)
        rules = ()
    for kind in ("text", "json", "sarif", "junit"):
        found = tool("verify", vmlinux, *rules, *as_format(kind), status=2)
        assert found.out == ""
        assert found.err.startswith("prologue: ")
        assert said in found.err
        assert found.err.count("\n") == 1
    assert verify(vmlinux, "--no-config", "--ignore", "") == 0  # ignores none


def test_a_reduced_run_says_how_many_rules_ran(mini: Mini, tool: Tool) -> None:
    applying = sum("V" in rule.inputs for rule in RULES)
    said = tool("verify", mini(Spec()), "--select", "PL201, PL307").out
    assert said.endswith(f"; 1 of {applying} rules that apply ran)\n")
    said = tool("verify", mini(Spec()), "--ignore", "PL307,PL302").out
    assert said.endswith(f"; {applying - 1} of {applying} rules that apply ran)\n")


def test_a_file_is_not_compared_with_itself(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    """After patch --in-place, nothing would differ, and all would be explained."""
    vmlinux, link = processed(mini(Spec())), tmp_path / "before"
    link.symlink_to(vmlinux)
    for same in (vmlinux, link):
        said = tool("verify", vmlinux, "--against", same, "-q", status=2).err
        message = f"{vmlinux}: would be compared with itself: --against takes the file from before, a copy"
        assert message in said
