"""The series as mail: what git takes, who signs it, and what the cover letter may say."""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from email.header import decode_header, make_header
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final

import pytest

from prologue.cli.main import main
from prologue.errors import UsageError
from prologue.kernel_tree.git import Identity, identity
from prologue.kernel_tree.mail import patch_mails, write_mails
from prologue.kernel_tree.patches import KernelPatch, Mode, all_series, default_mode, load_patch, load_standalone
from prologue.kernel_tree.source import KernelTree
from tests.support.needs import needs_common_tools
from tests.support.tool import Tool
from tests.support.trees import fingerprint, git, repository

TESTER: Final = Identity("A Tester", "tester@example.org", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
ABROAD: Final = Identity("Jürgen, Tester", "j@example.org", datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=-7))))
ZERO: Final = {"first": 0, "second": 0, "literal": 0, "other": 0}
RELEASE: Final = "6.12.9-next-20261127-00012-g0123456789ab"  # longer than what a line has room for
SCANNED: Final = {"kind": "vmlinux", "ftrace": True, "release": RELEASE, "sites": 43880, "records": 44216,
                  "zero_records": 336}  # fmt: skip


def mbox(series: KernelPatch, who: Identity = TESTER) -> bytes:
    """All mails in one file."""
    return b"".join(mail.text for mail in patch_mails(series, who))


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git knows the user."""
    monkeypatch.setenv("GIT_COMMITTER_NAME", TESTER.name)
    monkeypatch.setenv("GIT_COMMITTER_EMAIL", TESTER.email)
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-01-02T03:04:05+0000")


@pytest.fixture
def unknown(tmp_path: Path, known: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git has no settings at all; its guess from the machine's name must not count."""
    assert known is None
    for name in ("NAME", "EMAIL", "DATE"):
        monkeypatch.delenv(f"GIT_COMMITTER_{name}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("EMAIL", "")
    monkeypatch.chdir(tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("who", [TESTER, ABROAD], ids=["ASCII", "other"])
def test_git_am_does_what_install_does(every_tree: Path, tmp_path: Path, who: Identity) -> None:
    from prologue.kernel_tree.tree import install

    other = repository(Path(shutil.copytree(every_tree, tmp_path / "other")))
    series = install(every_tree).tree.patch
    git(other, "am", "--quiet", given=mbox(series, who))
    assert fingerprint(other) == fingerprint(every_tree)
    assert git(other, "status", "--porcelain") == ""
    log = git(other, "log", "--reverse", f"-{len(series.patches)}", "--format=%an|%ae|%at|%s|%(trailers:only)")
    rows = [row.split("|") for row in log.split("\n") if row]
    assert rows == [
        [who.name, who.email, str(int(who.date.timestamp())), patch.subject, who.sign_off] for patch in series.patches
    ]


@pytest.mark.parametrize("series", all_series())
def test_a_mail(series: str) -> None:
    patch = load_patch(series, mode=default_mode(series))
    mails = patch_mails(patch, ABROAD)
    for number, (mail, one) in enumerate(zip(mails, patch.patches, strict=True), 1):
        assert mail.name.startswith(f"{number:04}-")
        message = email.message_from_bytes(mail.text)
        subject = " ".join(str(message["Subject"]).split())
        assert subject == f"[PATCH {number}/{len(mails)}] {one.subject}"
        assert str(make_header(decode_header(message["From"]))) == "Jürgen, Tester <j@example.org>"
        assert parsedate_to_datetime(message["Date"]) == ABROAD.date
        text = mail.text.decode()
        head, _, body = text.partition("\n\n")
        assert len(head.split("\n")) == 7  # none is folded
        lines = body.partition("\n---\n")[0].split("\n")
        assert all(len(line) <= 78 or line.startswith("Link: ") for line in lines)
        assert f"\n{ABROAD.sign_off}\n---\n" in text
        assert one.diff.decode() in text
        assert text.count("changed, ") == 1
        assert text.count(" create mode 100644") == sum(change.creates for change in one.changes)
    assert len({mail.name for mail in mails}) == len(mails)


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        (load_patch("7.2", mode="sorttable"), 3 * ["Link"]),
        (load_standalone("sorttable-nm", "7.2"), ["Fixes"]),
        (load_standalone("init-mem", "7.2"), []),
    ],
    ids=["links", "a fix", "none"],
)
def test_git_takes_trailers_and_sign_off_for_one_paragraph(
    patch: KernelPatch, words: list[str], tmp_path: Path
) -> None:
    messages = [mail.text.decode().partition("\n\n")[2].partition("\n---\n")[0] for mail in patch_mails(patch, TESTER)]
    given = (git(tmp_path, "interpret-trailers", "--parse", given=f"Subject\n\n{m}\n".encode()) for m in messages)
    trailers = [[line.partition(": ")[0] for line in text.splitlines()] for text in given]
    assert max(trailers, key=len) == [*words, "Signed-off-by"]
    assert all(names[-1:] == ["Signed-off-by"] for names in trailers)


def test_who_posts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert identity(tmp_path) == TESTER
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-01-02T00:00:00-0730")
    assert identity(tmp_path).date.utcoffset() == -timedelta(hours=7, minutes=30)


def test_the_settings_of_the_tree_count(tree: Path, unknown: None, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert unknown is None
    git(tree, "init", "--quiet")
    git(tree, "config", "user.name", "Tree Owner")
    git(tree, "config", "user.email", "owner@example.org")
    assert main(["kernel", "patch", str(tree)]) == 0
    out = capfdbinary.readouterr().out
    count = len(load_patch(KernelTree(tree).series, mode="sorttable").patches)
    assert out.count(b"\nSigned-off-by: Tree Owner <owner@example.org>\n") == count
    assert out.count(b"\nFrom: Tree Owner <owner@example.org>\n") == count


def test_a_name_is_utf_8_in_any_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_COMMITTER_NAME", ABROAD.name)
    ascii_locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "prologue", "kernel", "patch", all_series()[0]]
    mails = subprocess.run(command, env=os.environ | ascii_locale, capture_output=True, check=True).stdout
    assert mails.count(f"\nSigned-off-by: {ABROAD.name} <{TESTER.email}>\n".encode()) == mails.count(b"\nSubject: ")


def test_an_address_that_mail_cannot_have(monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    monkeypatch.setenv("GIT_COMMITTER_EMAIL", "jörg@example.org")
    said = tool("kernel", "patch", all_series()[0], status=2).err
    assert "mail cannot be from 'jörg@example.org', which is not ASCII" in said


@pytest.mark.parametrize("options", [[], ["--cover-letter"], ["-o", "out"]])
def test_without_an_identity_nothing_is_written(tmp_path: Path, unknown: None, options: list[str], tool: Tool) -> None:
    assert unknown is None
    with pytest.raises(UsageError, match="Signed-off-by needs your identity, and git has none"):
        identity(tmp_path)
    said = tool("kernel", "patch", all_series()[0], *options, status=2)
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "git config --global user.name" in said.err
    assert not (tmp_path / "out").exists()


@pytest.mark.thorough
def test_a_directory(tmp_path: Path, tool: Tool) -> None:
    out, series = tmp_path / "out", load_patch(all_series()[-1], mode="sorttable")
    said = tool("kernel", "patch", series.series, "-o", out)
    mails = patch_mails(series, TESTER)
    names = ["0000-cover-letter.patch", *(mail.name for mail in mails)]
    assert said.out.splitlines() == [str(out / name) for name in names]
    assert said.err == f"warning: {out / names[0]}: has no figures (--figures FILE)\n"
    assert sorted(path.name for path in out.iterdir()) == names
    assert [(out / mail.name).read_bytes() for mail in mails] == [mail.text for mail in mails]
    letter = (out / names[0]).read_text()
    assert f"Subject: [PATCH 0/{len(mails)}] arm64: ftrace: " in letter
    assert all(f"\n  {patch.subject}\n" in letter for patch in series.patches)
    assert f" {len(series.changes)} files changed, " in letter
    before = fingerprint(out)
    error = tool("kernel", "patch", series.series, "-o", out, status=2).err
    assert f"{out}: has patches already (0000-cover-letter.patch)" in error
    assert fingerprint(out) == before
    error = tool("kernel", "patch", series.series, "-o", tmp_path / "no" / "out", status=2).err
    assert "cannot be made: No such file or directory" in error


def test_half_a_series_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(path: Path, content: bytes) -> int:
        if path.name.startswith(".0003-"):
            raise KeyboardInterrupt
        return real(path, content)

    mails = patch_mails(load_patch(all_series()[0]), TESTER)
    real = Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", write)
    with pytest.raises(KeyboardInterrupt):  # or any error
        write_mails(tmp_path / "out", mails)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_long_subject_is_folded_at_spaces() -> None:
    patch = replace(load_patch(all_series()[0]).patches[0], subject="arm64: " + 12 * "co-ordinated ")
    (mail,) = patch_mails(KernelPatch("6.1", (patch,), patch.changes), TESTER)
    message = email.message_from_bytes(mail.text)
    assert " ".join(str(message["Subject"]).split()) == f"[PATCH] {patch.subject.strip()}"


@pytest.mark.parametrize("mode", ["boot", None], ids=["boot", "default mode"])
@pytest.mark.parametrize("series", all_series())
def test_the_letter(series: str, mode: Mode | None, tool: Tool) -> None:
    letter = tool("kernel", "patch", series, "--cover-letter", *(["--mode", mode] if mode else [])).out
    assert f"\nApplies to Linux {series}." in letter
    text = letter.partition("\n\n")[2].partition(f"\n{TESTER.name} (")[0]
    assert all(len(line) <= 78 for line in text.splitlines())
    # No figure that was not given, except the numbers of the patches, and of what others have said.
    steps = text.partition("Each patch stands")[2].partition("All patches are for")[0]
    count = len(load_patch(series, mode=mode or default_mode(series)).patches)
    assert re.findall(r"(?m)^ +(\d+)  \w", steps) == [str(number) for number in range(1, count + 1)]
    assert not re.search(r"\d,\d|\d%|Counted with", text)
    assert ("arm64: ftrace: make all callsites in one loop at boot\n" in letter) is (mode == "boot")
    assert ("build" in letter) is (mode != "boot")


def counts(release: str, sites: int, literals: int) -> dict[str, Any]:
    boot = {"release": release, "layout": "4,2" if literals else "2", "sites": sites, "instructions": 123_456_789,
            "ftrace_init": 9_876_543, "words": ZERO,
            "ftrace_init_words": ZERO | {"first": sites, "literal": 2 * literals}}  # fmt: skip
    build = boot | {"instructions": 113_000_000, "ftrace_init": 1_234_567,
                    "ftrace_init_words": ZERO | {"literal": 2 * literals}}  # fmt: skip
    return {"vmlinux": "vmlinux", "boot": boot, "build": build}


def test_figures_are_those_of_the_files(tmp_path: Path, tool: Tool) -> None:
    kernels = [counts("6.1.9-test", 4321, 0), counts("6.12.9-test", 5432, 5432)]
    counted, scanned = tmp_path / "counts.json", tmp_path / "scan.json"
    data = {"schema": "prologue.exact-counts/1", "qemu": "9.9", "cpu": "max", "kernels": kernels}
    counted.write_text(json.dumps(data))
    scanned.write_text(json.dumps({"schema": "prologue.scan/1", "files": [SCANNED, {"kind": "module"}]}))
    options = ["--cover-letter", "--figures", str(counted), "--figures", str(scanned)]
    letter = " ".join(tool("kernel", "patch", all_series()[-1], *options).out.split())
    assert "Counted with bench/exact_counts.py: guest instructions under QEMU 9.9 icount, one CPU (max)" in letter
    assert "6.1.9-test, 4,321 sites at boot at build time" in letter
    assert "instructions, reset to init 123,456,789 113,000,000" in letter
    assert "of them in ftrace_init 9,876,543 1,234,567 instructions written there 4,321 0" in letter
    assert "instructions written there 5,432 0 literals written there 5,432 5,432" in letter
    assert letter.count("literals written there") == 1
    scan = f"By prologue scan, the vmlinux of {RELEASE} has 43,880 sites in 44,216 records (336 of them zero)."
    assert scan in letter


def test_figures_stand_in_the_patches_that_they_are_of(tmp_path: Path, tool: Tool) -> None:
    """Below the line that git am cuts: a figure is of a machine, and no part of a commit."""
    scanned = tmp_path / "scan.json"
    scanned.write_text(json.dumps({"schema": "prologue.scan/1", "files": [SCANNED]}))
    out = tmp_path / "out"
    assert tool("kernel", "patch", all_series()[-1], "-o", out, "--figures", scanned).err == ""
    series = load_patch(all_series()[-1], mode="sorttable")
    notes = [path.read_text().partition("\n---\n")[2].partition("\ndiff --git")[0] for path in mails_of(out)]
    having = [patch.step for patch, note in zip(series.patches, notes, strict=True) if "43,880" in note]
    assert having == ["loop", "sorttable"]
    assert all("43,880" not in path.read_text().partition("\n---\n")[0] for path in mails_of(out))


def mails_of(directory: Path) -> list[Path]:
    """Those of patches."""
    return sorted(directory.glob("*.patch"))[1:]


# Says of each patch what it changes; as the kernel's own prints it.
_MAINTAINERS: Final = """\
my $diff = join "", <STDIN>;
die "options: @ARGV" if "@ARGV" ne "--nogit --nogit-fallback --roles --norolestats --nofixes";
print "Arm Keeper <arm\\@example.org> (maintainer:ARM64 PORT)\\n" if $diff =~ m,b/arch/arm64/,;
print "\\"Tracer, A.\\" <trace\\@example.org> (maintainer:FUNCTION HOOKS (FTRACE))\\n" if $diff =~ m,b/kernel/trace/,;
print "Paid Hand <paid\\@example.org> (supporter:BUILD)\\nReader <reader\\@example.org> (reviewer:BUILD)\\n"
    if $diff =~ m,b/scripts/,;
print "linux-kernel\\@example.org (open list)\\nlist\\@example.org (moderated list:ARM64 PORT)\\n";
"""


def test_each_patch_goes_to_those_whose_files_it_changes(tree: Path, tmp_path: Path, tool: Tool) -> None:
    needs_common_tools("perl")
    script = tree / "scripts" / "get_maintainer.pl"
    script.parent.mkdir(exist_ok=True)
    script.write_text(_MAINTAINERS)
    out = tmp_path / "out"
    assert main(["kernel", "patch", str(tree), "-o", str(out)]) == 0
    messages = [email.message_from_bytes(path.read_bytes()) for path in sorted(out.glob("*.patch"))]
    lists = "linux-kernel@example.org, list@example.org"
    keeper, tracer = "Arm Keeper <arm@example.org>", '"Tracer, A." <trace@example.org>'
    assert [messages[0]["To"], messages[0]["Cc"]] == [
        f"{keeper}, {tracer}, Paid Hand <paid@example.org>",
        f"Reader <reader@example.org>, {lists}",
    ]
    steps = [patch.step for patch in load_patch(KernelTree(tree).series, mode="sorttable").patches]
    to = {step: (message["To"], message["Cc"]) for step, message in zip(steps, messages[1:], strict=True)}
    assert to["records"] == (tracer, lists)
    assert to["loop"] == (keeper, lists)
    assert to["documentation"] == (None, lists)
    script.write_text("exit 2;\n")
    assert not re.search(r"(?m)^(To|Cc):", tool("kernel", "patch", tree, "--cover-letter").out)


def test_the_letter_names_the_commit_of_the_tree(tree: Path, tool: Tool) -> None:
    """For git, and for robots that apply a series where it belongs; a tree without a history has none."""
    assert "base-commit" not in tool("kernel", "patch", tree, "--cover-letter").out
    repository(tree)
    said = tool("kernel", "patch", tree, "--cover-letter").out
    assert said.count(f"\nbase-commit: {git(tree, 'rev-parse', 'HEAD').strip()}\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file"),
        ("no JSON", "has no figures"),
        ("[]", "has no figures"),
        ("{}", "has no figures"),
        ('{"schema": "prologue.exact-counts/1"}', "has no figures"),
        ('{"schema": "prologue.scan/1", "files": [{"kind": "module"}]}', "has no figures"),
        ('{"schema": "prologue.verify/1"}', "figures of another kind (prologue.verify/1)"),
    ],
)
def test_figures_that_are_none(tmp_path: Path, text: str | None, message: str, tool: Tool) -> None:
    path = tmp_path / "figures"
    if text is not None:
        path.write_text(text)
    said = tool("kernel", "patch", all_series()[0], "-o", tmp_path / "out", "--figures", path, status=2)
    assert said.err.startswith(f"prologue: {path}: ")
    assert message in said.err
    assert said.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_letter_alone_is_printed(tool: Tool) -> None:
    said = tool("kernel", "patch", all_series()[0], "--cover-letter", "-o", "out", status=2).err
    assert "-o DIR writes the cover letter too" in said
