"""Lines fit for a mail: ASCII, 75 columns."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Sequence
from typing import Final

from prologue.words import printable

WIDTH: Final = 75
_LEAST_LABEL: Final = 8  # columns of a variant's label in a table
_MOST_LABEL: Final = 20
_GAP: Final = "  "
# Headings, quotes, lists, code, emphasis, HTML, entities, links, and backslashes that would take a character of these.
_MARKUP: Final = re.compile(
    r"^(?:#(?=#*\s)|>|[+-](?=\s))"
    r"|[*`~]|<(?=[A-Za-z/!?])|&(?=[#\w]+;)|\](?=[(\[])|\\(?=[!-/:-@\[-`{-~])|(?<!\w)_|_(?!\w)"
)


def mail(text: str) -> str:
    r"""Put the text on one line of ASCII; other characters become ``\xe9`` and the like."""
    return printable(text).encode("ascii", "backslashreplace").decode("ascii")


def markdown(text: str) -> str:
    """Put the text on one line of Markdown that shows it as it is: a name such as ``sort <in`` is no markup."""
    return _MARKUP.sub(r"\\\g<0>", mail(text))


def wrapped(text: str, first: str = "", then: str = "  ") -> list[str]:
    """Break a sentence into lines of at most 75 columns; ``first`` and ``then`` are what they begin with."""
    return textwrap.wrap(
        mail(text), WIDTH, initial_indent=first, subsequent_indent=then, break_on_hyphens=False
    )  # fmt: skip


def command_lines(words: Sequence[str], indent: str = "") -> list[str]:
    """Break a command as a shell takes it, with backslashes between words."""
    room = WIDTH - 2 - len(indent)
    lines = [""]
    for word in (word if word == "$" else _shell_word(word) for word in words):
        joined = f"{lines[-1]} {word}".strip() if len(lines) == 1 else f"{lines[-1]} {word}"
        if len(joined) <= room or not lines[-1].strip():
            lines[-1] = joined
        else:
            lines.append(f"  {word}")
    return [f"{indent}{line} \\" for line in lines[:-1]] + [indent + lines[-1]]


def _shell_word(word: str) -> str:
    r"""Quote a word for a shell; what no mail holds becomes ``$'\303\251'``, which is that word to bash and zsh."""
    if word.isascii() and word.isprintable():
        return shlex.quote(word)
    # Bytes of a name that is no text are surrogates from U+DC80 on; others are in no file's name.
    data = b"".join(
        c.encode("utf-8", "surrogateescape" if "\udc80" <= c <= "\udcff" else "surrogatepass") for c in word
    )
    kept = (chr(byte) if 0x20 <= byte < 0x7F and byte not in b"'\\" else f"\\{byte:03o}" for byte in data)
    return f"$'{''.join(kept)}'"


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int]) -> list[str]:
    """Write a table in columns; the first is the variant's, those of the numbers in ``right`` are set to the right.

    Labels that are too long continue in the next line: the numbers decide how much room is left for them.
    """
    widths = [max(len(row[k]) for row in (head, *rows)) for k in range(1, len(head))]
    room = max(WIDTH - sum(widths) - len(_GAP) * len(widths), _LEAST_LABEL)
    labels = [textwrap.wrap(mail(row[0]), min(room, _MOST_LABEL)) or [""] for row in (head, *rows)]
    first = max(len(part) for label in labels for part in label)
    lines = []
    for label, row in zip(labels, (head, *rows), strict=True):
        cells = [
            cell.rjust(width) if k in right else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row[1:], widths, strict=True), 1)
        ]
        lines += [_GAP.join([label[0].ljust(first), *cells]).rstrip(), *label[1:]]
    return lines


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int]) -> list[str]:
    """Write the same in Markdown."""
    from tabulate import tabulate

    cells = [[markdown(cell).replace("|", "\\|") for cell in row] for row in rows]
    align = ["right" if k in right else "left" for k in range(len(head))]
    return tabulate(cells, head, tablefmt="pipe", disable_numparse=True, colalign=align).splitlines()
