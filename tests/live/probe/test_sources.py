"""Source files by the ends of their paths: a file that only has the same name is another one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prologue.errors import InputError
from prologue.live.probe.statements import Sources

UNIT: Any = SimpleNamespace(directory="/build/linux-6.12", name="fs/read_write.c")


def test_a_file_is_found_by_the_longest_end_of_its_path(tmp_path: Path) -> None:
    (tmp_path / "fs").mkdir()
    (tmp_path / "fs" / "read_write.c").write_text("right\n")
    (tmp_path / "read_write.c").write_text("wrong\n")
    assert Sources(tmp_path).lines(UNIT, "fs/read_write.c") == ["right"]


def test_its_name_alone_is_not_enough(tmp_path: Path) -> None:
    (tmp_path / "read_write.c").write_text("wrong\n")
    assert Sources(tmp_path).lines(UNIT, "fs/read_write.c") == []


def test_a_source_that_cannot_be_read_is_no_damage_of_the_vmlinux(tmp_path: Path) -> None:
    (tmp_path / "fs").mkdir()
    unreadable = tmp_path / "fs" / "read_write.c"
    unreadable.symlink_to("/proc/self/mem")  # also for root
    with pytest.raises(InputError, match="cannot be read: Input/output error") as refused:
        Sources(tmp_path).lines(UNIT, "fs/read_write.c")
    assert refused.value.path == unreadable
