"""The tutorial's commands work as pasted, and README shows what its commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.test_examples import blocks
from tests.support.needs import needs_kernel, needs_tools
from tests.support.pasted import ROOT, pasted

pytestmark = pytest.mark.kernel
# Where the demo leaves its files; the test has a directory of its own.
PLACE = "    . .venv/bin/activate\n    cd demo-out\n"


@pytest.fixture
def kernel_directory(tmp_path: Path) -> Path:
    (tmp_path / "vmlinux").symlink_to(needs_kernel("bookworm").vmlinux)
    return tmp_path


def test_tutorial(kernel_directory: Path) -> None:
    needs_tools("qemu-system-aarch64")
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    assert PLACE in page
    # Each block is pasted alone, as a reader does; indentation is Markdown's.
    texts = [re.sub(r"^ {4}", "", block, flags=re.MULTILINE)
             for block in re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", page.replace(PLACE, ""), re.MULTILINE)]  # fmt: skip
    said = [pasted(text, kernel_directory) for text in texts]
    ends = [output.rsplit("exit ", 1)[1].strip() for output in said]
    ones = [text.splitlines()[-1] for text, end in zip(texts, ends, strict=True) if end == "1"]
    assert ones == [
        "prologue transition nop 'mov x9, x30'", "prologue verify broken",
        "prologue probe vmlinux vfs_read vfs_read+4 schedule+0x10",
    ], said  # fmt: skip
    assert set(ends) == {"0", "1"}
    broken = next(at for at, text in enumerate(texts) if "verify broken" in text)
    assert "PL202 sites-partly-patched (fatal): 1" in said[broken]
    assert "first slots executed" in "".join(said)
    assert re.search(r"<vfs_read>:\n.*\tmov\tx9, x30\n.*\tnop\n", "".join(said))


def test_readme_shows_what_is_printed(kernel_directory: Path) -> None:
    """Numbers and names of one build aside: Debian's kernel gets updates."""
    text = blocks((ROOT / "README.md").read_text(encoding="utf-8"))
    sessions = [part.split("\n", 1) for part in text.split("    $ ")[1:]]
    assert len(sessions) == 3
    for command, shown in sessions:
        printed = pasted(command, kernel_directory)
        assert printed.endswith("exit 0\n")
        assert without_numbers(printed) == without_numbers(f"{shown.rstrip()}\nexit 0")


def without_numbers(text: str) -> list[str]:
    """Lines of a text, each number and build-id as N."""
    return [re.sub(r"\b[0-9a-f]{40}\b|[\d.,-]*\d[\w,.-]*", "N", line.strip()) for line in text.splitlines()]
