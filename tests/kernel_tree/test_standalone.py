"""The patches that stand alone: they fit the releases, with and without the series, and go out as one mail each."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

import pytest

from prologue.cli.main import main
from prologue.errors import InputError
from prologue.kernel_tree.mail import patch_mails
from prologue.kernel_tree.patches import STANDALONE, all_series, load_patch, load_standalone, standalone_releases
from prologue.kernel_tree.tree import install
from tests.kernel_tree.test_mail import TESTER, known, mbox  # noqa: F401 - a fixture is used by its name
from tests.support.tool import Tool
from tests.support.trees import SOURCES, fingerprint, git, made_tree, needs_source_files, repository

ALL: Final = [(name, release) for name in STANDALONE for release in standalone_releases(name)]


def needs_tree(release: str, tmp_path: Path) -> Path:
    """A copy of Debian's files that any of our patches for a release changes."""
    patches = [load_standalone(name, release) for name, its_release in ALL if its_release == release]
    changes = [change for patch in patches for change in patch.changes]
    changes += load_patch(release).changes if release in all_series() else ()
    names = {change.path for change in changes if not change.creates}
    names |= {str(Path(change.path).parent) for change in changes if change.creates} - {"arch/arm64"}
    names -= {str(Path(name).parent) for name in names}
    return Path(shutil.copytree(needs_source_files(*SOURCES[release], names), tmp_path / "linux"))


def test_the_releases() -> None:
    assert standalone_releases("init-mem") == standalone_releases("relocations") == all_series()
    # 6.1 and 6.6 sort their records at boot.
    assert standalone_releases("sorttable-nm") == tuple(one for one in all_series() if one not in ("6.1", "6.6"))


@pytest.mark.parametrize(("name", "release"), ALL)
def test_a_mail(name: str, release: str) -> None:
    patch = load_standalone(name, release)
    (step,) = patch.patches
    (mail,) = patch_mails(patch, TESTER)
    text = mail.text.decode()
    assert mail.name.startswith("0001-")
    assert f"\nSubject: [PATCH] {step.subject}\n" in text
    message, _, rest = text.partition("\n---\n")
    assert re.search(rf"\n\n{re.escape(step.body)}\n?{re.escape(TESTER.sign_off)}\Z", message)
    assert rest.startswith(f"{step.notes}\n {step.changes[0].path} ")
    assert re.search(r"\d{3},\d{3}|\d\d,\d{3}", step.notes), "no figures"
    assert step.diff.decode() in rest
    lines = (step.body + step.notes).splitlines()
    assert all(len(line) <= 75 or line.startswith("Fixes: ") for line in lines)
    for marks in (b"".join(line[:1] for line in hunk.lines) for change in step.changes for hunk in change.hunks):
        assert len(marks) - len(marks.strip(b" ")) == 6  # three lines of context on each side


@pytest.mark.kernel
@pytest.mark.parametrize("release", SOURCES)
def test_the_order_does_not_matter(release: str, tmp_path: Path) -> None:
    """Installed before them or after them, the series is the same change, and it can be taken out again."""
    tree = repository(needs_tree(release, tmp_path))
    other = Path(shutil.copytree(tree, tmp_path / "other"))
    steps = {patch.step for patch in load_patch(release).patches}  # a patch may be one of the series, too
    names = [name for name, its_release in ALL if its_release == release and name not in steps]
    ours = [load_standalone(name, release) for name in names]
    git(tree, "am", "--quiet", given=mbox(load_patch(release)))
    for patch in ours:
        for repository_ in (tree, other):
            git(repository_, "am", "--quiet", given=mbox(patch))
            message = f"{patch.patches[0].subject}\n\n{patch.patches[0].body}\n{TESTER.sign_off}"
            assert git(repository_, "log", "-1", "--format=%B").split() == message.split()
    install(other)
    assert fingerprint(tree) == fingerprint(other)


def test_a_release_without_it() -> None:
    with pytest.raises(
        InputError, match=r"^there is no patch sorttable-nm for Linux 6.1, only for 6.12, 6.18, 7.2, 7.3$"
    ):
        load_standalone("sorttable-nm", "6.1")
    with pytest.raises(InputError, match=r"^no/tree: there is no patch init-mem for Linux 5.10, only for 6.1, "):
        load_standalone("init-mem", "5.10", Path("no/tree"))


@pytest.mark.parametrize("release", all_series())
def test_the_command(release: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """By release and by tree; the series need not know the release."""
    wanted = mbox(load_standalone("init-mem", release))
    for where in (release, f"v{release}.4-rc1", str(made_tree(release, tmp_path / "linux"))):
        assert main(["kernel", "patch", "--series", "init-mem", where]) == 0
        assert capfdbinary.readouterr() == (wanted, b"")


def test_a_directory(tmp_path: Path, tool: Tool) -> None:
    out = tmp_path / "out"
    said = tool("kernel", "patch", "--series", "relocations", "7.2", "-o", out)
    (mail,) = patch_mails(load_standalone("relocations", "7.2"), TESTER)
    assert (said.out, said.err) == (f"{out / mail.name}\n", "")
    assert [(path.name, path.read_bytes()) for path in out.iterdir()] == [(mail.name, mail.text)]
    assert "has patches already" in tool("kernel", "patch", "--series", "init-mem", "7.2", "-o", out, status=2).err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--series", "init-mem", "no-tree"], "no-tree: is neither a kernel tree nor a release; there are patches for"),
        (
            ["--series", "init-mem", "7.2", "--cover-letter"],
            "is one patch with its figures: leave out --mode, --cover-letter and --figures",
        ),
    ],
)
def test_words_that_make_no_sense(words: list[str], message: str, tool: Tool) -> None:
    said = tool("kernel", "patch", *words, status=2)
    assert said.out == ""
    assert message in said.err
    assert re.fullmatch(r"prologue.*: .+\n", said.err.splitlines(keepends=True)[-1])
