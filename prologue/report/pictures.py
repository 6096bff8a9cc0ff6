"""What all pictures share: their formats, and that equal ones are equal files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from prologue.errors import InputError, UsageError, how_to_install
from prologue.outputs import new_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What each format is not to say, so that the same data make the same file.
_UNDATED: Final = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
_SALT: Final = "prologue"  # of names inside of an SVG


def require_plottable(path: Path, *, by_hand: tuple[str, ...] = ()) -> None:
    """Refuse a name that no picture can have, and a machine that has no matplotlib, before the work.

    ``by_hand`` are suffixes of pictures that need no matplotlib.

    Raises:
        UsageError: another suffix.
        InputError: matplotlib is not installed.

    """
    if path.suffix.lower() not in _UNDATED:
        raise UsageError(f"{path}: a picture ends in {', '.join(_UNDATED)}")
    if path.suffix.lower() in by_hand:
        return
    try:
        import matplotlib  # noqa: F401 - whether it is there
    except ImportError as error:
        raise InputError(f"pictures are drawn by matplotlib: {how_to_install('bench')}", path=path) from error


def save_picture(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the name's suffix.

    Raises:
        OutputError: ``path`` cannot be written.

    """
    import matplotlib as mpl

    suffix = path.suffix.lower()
    with new_file(path) as temporary, mpl.rc_context({"svg.hashsalt": _SALT, "svg.fonttype": "none"}):
        figure.savefig(temporary, format=suffix[1:], dpi=120, metadata=_UNDATED[suffix])
