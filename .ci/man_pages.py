"""Put a man page for each command, and the pages that messages name, into a wheel: a build hook of hatchling."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPages(BuildHookInterface[Any]):
    """Writes the pages into ``build/man``, from where the wheel takes them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the pages of the tree that is built."""
        sys.path[:0] = [self.root, str(Path(self.root) / "bench")]
        from prologue.cli.man_pages import write_pages

        for page in write_pages(Path(self.root) / "build" / "man" / "man1"):
            build_data["shared_data"][str(page)] = f"share/man/man1/{page.name}"
        if version != "editable":  # there, `prologue help` reads the pages themselves
            for page in (Path(self.root) / "docs").glob("*.md"):
                build_data["force_include"][str(page)] = f"prologue/pages/{page.name}"
            build_data["force_include"][str(Path(self.root) / "docs" / "schemas")] = "prologue/pages/schemas"
