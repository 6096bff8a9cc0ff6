"""Examples to try commands with: a kernel as a listing, damage to it, and a trace, all of them text."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "example:"  # of an argument that names an example; here, since a run without one must start fast
