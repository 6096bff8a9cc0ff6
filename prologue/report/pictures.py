"""The common part of all pictures: formats, choices of a reader, and equal files for equal pictures."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prologue.errors import InputError, UsageError
from prologue.installation import how_to_install
from prologue.outputs import new_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI: Final = 120
# Metadata without date and version, so that the same data make the same file.
_UNDATED: Final[dict[str, dict[str, Any]]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_STYLE: Final[dict[Any, Any]] = {
    "text.parse_math": False,  # a label is no formula
    "svg.hashsalt": "prologue",  # of names inside of an SVG
    "svg.fonttype": "none",  # text as text
}
DARK_INK: Final = "#e3e8ee"
DARK_GROUND: Final = "#12161b"
_DARK: Final[dict[Any, Any]] = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), DARK_GROUND),
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), DARK_INK),
}
_WHITE_SHARE: Final = 0.4  # that colours get on a dark ground


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureLook:
    """A reader's choices for a picture; ``size`` in pixels of a PNG."""

    title: str | None = None
    size: tuple[int, int] | None = None
    dark: bool = False
    notes: bool = True

    def inches(self, width: float, height: float) -> tuple[float, float]:
        """Return the size of a figure that would have this width and height by itself."""
        return (width, height) if self.size is None else (self.size[0] / _DPI, self.size[1] / _DPI)


OWN: Final = PictureLook()
"""A picture as it is if a reader chooses nothing."""


def require_plottable(path: Path) -> None:
    """Refuse a name that no picture can have, and a machine that has no matplotlib, before the work.

    Raises:
        UsageError: another suffix.
        InputError: matplotlib is not installed.

    """
    if path.suffix.lower() not in _UNDATED:
        raise UsageError(f"{path}: a picture ends in {', '.join(_UNDATED)}")
    try:
        import matplotlib  # noqa: F401 - whether it is there
    except ImportError as error:
        raise InputError(
            f"pictures are drawn by matplotlib: {how_to_install('reports', 'matplotlib')}", path=path
        ) from error


@contextmanager
def drawing(look: PictureLook, style: Mapping[Any, Any] | None = None) -> Iterator[None]:
    """Set matplotlib up while a picture is drawn and saved; ``style`` are its own settings."""
    import matplotlib as mpl

    with mpl.rc_context({**_STYLE, **(style or {}), **(_DARK if look.dark else {})}):
        yield


def shade(colour: str) -> str:
    """Return the colour as it is drawn now: lighter on a dark ground."""
    import matplotlib as mpl
    from matplotlib.colors import to_hex, to_rgb

    if mpl.rcParams["figure.facecolor"] != DARK_GROUND:
        return colour
    red, green, blue = (part + (1 - part) * _WHITE_SHARE for part in to_rgb(colour))
    return to_hex((red, green, blue))


def save_picture(figure: Figure, path: Path) -> None:
    """Write a figure, whole or not at all, in the format of the name's suffix.

    Raises:
        OutputError: ``path`` cannot be written.

    """
    suffix = path.suffix.lower()
    with new_file(path) as temporary:
        figure.savefig(temporary, format=suffix[1:], dpi=_DPI, metadata=_UNDATED[suffix])


def svg_of(figure: Figure) -> bytes:
    """Return a figure as SVG."""
    stream = io.BytesIO()
    figure.savefig(stream, format="svg", dpi=_DPI, metadata=_UNDATED[".svg"])
    return stream.getvalue()
