"""The table of docs/kernels.md."""

from __future__ import annotations

from pathlib import Path

from tests.kernels.recipes import KERNELS
from tests.kernels.table import HEAD, Seen, row, write
from tests.support.needs import needs_tools


def cells(what: str) -> dict[str, str]:
    return {column: f"{what} {column}" for column in HEAD}


def test_rows_of_other_kernels_stay(tmp_path: Path) -> None:
    path = tmp_path / "kernels.md"
    write(path, {"rt": cells("old"), "kcfi": cells("first")})
    write(path, {"rt": cells("new")})
    lines = [line for line in path.read_text().splitlines() if line.startswith("| `")]
    assert [line.split("`")[1] for line in lines] == list(KERNELS)
    rows = {line.split("`")[1]: line for line in lines}
    assert rows.pop("kcfi") == "| `kcfi` | " + " | ".join(f"first {column}" for column in HEAD) + " |"
    assert rows.pop("rt") == "| `rt` | " + " | ".join(f"new {column}" for column in HEAD) + " |"
    assert all("| not run |" in line for line in rows.values())
    again = path.read_bytes()
    write(path, {"rt": cells("new")})
    assert path.read_bytes() == again


def test_what_failed_is_said() -> None:
    needs_tools("aarch64-linux-gnu-gcc")
    kernel = next(one for one in KERNELS.values() if one.recipe.toolchain == "gcc")
    made = row(Seen(kernel, None, {}, (), {"boot": ["lost | its\nconsole", "other"]}))
    assert made["boot"] == "FAILED: lost / its console (and 1 more)"
    assert made["verify"] == ""
    assert made["audit"] == ""
