"""A Debian kernel's modules, as the package installs them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prologue_bench.errors import BenchError
from prologue_bench.guest import packages
from prologue_bench.guest.deb import extract_all
from prologue_bench.host import cache

if TYPE_CHECKING:
    from collections.abc import Iterable


def fetch_modules(suite: str, release: str) -> Path:
    """Return a directory with the unpacked packages of that kernel release: ``boot`` and ``.../lib/modules``.

    Treat it as read-only: it is the cache's. Raises what ``packages.download`` raises.
    """
    deb, *parts = packages.download_whole(suite, f"linux-image-{release}")

    def unpack(path: Path) -> None:
        for package in (deb, *parts):
            extract_all(package, path)

    return cache.produce(f"modules/{suite}/{deb.stem}{'.whole' if parts else ''}", unpack)


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
