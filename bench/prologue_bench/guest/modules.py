"""The order in which modules of a Debian kernel have to be loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prologue_bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterable


def load_order(package: Path, names: Iterable[str]) -> list[Path]:
    """Return the named modules and all that they need, each after what it needs itself.

    Debian's packages have no ``modules.dep``; each module says in ``depends=`` what it needs.
    """
    files = {_name(path): path for path in package.rglob("*.ko*") if path.is_file()}
    order: list[Path] = []

    def add(name: str) -> None:
        path = files.get(name.replace("-", "_"))
        if path is None:
            raise BenchError(f"{package} has no module {name}")
        if path in order:
            return
        for needed in _depends(path):
            add(needed)
        order.append(path)

    for name in names:
        add(name)
    return order


def _name(path: Path) -> str:
    return path.name.partition(".ko")[0].replace("-", "_")


def _depends(path: Path) -> list[str]:
    from prologue.kernel.load import open_binary
    from prologue.kernel.module import Module

    module = open_binary(path)
    depends = module.modinfo.get("depends", "") if isinstance(module, Module) else ""
    return [name for name in depends.split(",") if name]
