"""The table of docs/kernels.md."""

from __future__ import annotations

from pathlib import Path

from tests.kernels.recipes import KERNELS
from tests.kernels.table import HEAD, Seen, row, write


def cells(what: str) -> dict[str, str]:
    return {column: f"{what} {column}" for column in HEAD}


def test_rows_of_other_kernels_stay(tmp_path: Path) -> None:
    path = tmp_path / "kernels.md"
    write(path, {"rt": cells("old"), "kcfi": cells("first")})
    write(path, {"rt": cells("new")})
    lines = [line for line in path.read_text().splitlines() if line.startswith("| `")]
    assert [line.split("`")[1] for line in lines] == ["kcfi", "rt"]
    assert lines[0] == "| `kcfi` | " + " | ".join(f"first {column}" for column in HEAD) + " |"
    assert "old" not in lines[1]
    again = path.read_bytes()
    write(path, {"rt": cells("new")})
    assert path.read_bytes() == again


def test_what_failed_is_said() -> None:
    kernel = next(one for one in KERNELS.values() if one.recipe.toolchain == "gcc")
    made = row(Seen(kernel, None, {}, (), {"boot": ["lost | its\nconsole", "other"]}))
    assert made["boot"] == "FAILED: lost / its console (and 1 more)"
    assert made["verify"] == ""
    assert made["audit"] == ""
