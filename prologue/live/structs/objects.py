"""Structs of a kernel in memory: members by the types of its vmlinux, lists, trees and strings.

Whatever cannot be followed raises ``NotKnownError``, which says why: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from prologue.dwarf.btf import Btf
from prologue.live.memory.ranges import KERNEL_HALF
from prologue.live.structs.variables import Variables

_MOST: Final = 100_000  # entries: a list that is longer is damaged memory
_MOST_COUNTED: Final = 1 << 22  # entries: a number of more is
_LONGEST_NAME: Final = 512  # KSYM_NAME_LEN (include/linux/kallsyms.h, 6.1-7.3)
# Low bits of an entry of an xarray say what it is (include/linux/xarray.h, 5.10-7.3): 2 for a node.
_XA_KIND, _XA_NODE = 3, 2


class NotKnownError(Exception):
    """Memory or the vmlinux does not say it."""


class NotReadError(NotKnownError):
    """Memory should say it: it is damaged, lacks what a pointer leads to, or was taken in the middle of a change."""


class NotKnown(NamedTuple):
    """A fact that is not known, and why; ``is_open`` if memory should have said it: then nothing passes."""

    what: str
    why: str
    is_open: bool = False

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


@contextmanager
def noted(not_known: list[NotKnown], what: str) -> Iterator[None]:
    """Add to ``not_known`` why the rest of the block could not be done, if memory or the vmlinux does not say it."""
    try:
        yield
    except NotKnownError as error:
        not_known.append(NotKnown(what, str(error), isinstance(error, NotReadError)))


def raise_all(errors: Sequence[NotKnownError]) -> None:
    """Raise several errors as one, if there are any."""
    if errors:
        kind = next((type(error) for error in errors if isinstance(error, NotReadError)), NotKnownError)
        raise kind("; ".join(map(str, errors)))


class Objects:
    """The one reader of structs, for all that is attached to a kernel."""

    def __init__(self, variables: Variables) -> None:
        self.variables = variables
        self._layouts = variables.layouts
        self.source = self._layouts.source.removeprefix("from ") if self.has_types else "neither BTF nor DWARF"
        self._places: dict[str, int | None] = {}

    @property
    def has_types(self) -> bool:
        """True if the vmlinux has any types; without them every struct is unknown."""
        return self._layouts.types is not None

    @property
    def btf(self) -> Btf | None:
        """The vmlinux's BTF, if the types come from that: it has prototypes of functions."""
        return self._layouts.types if isinstance(self._layouts.types, Btf) else None

    def has(self, name: str) -> bool:
        """Return whether the vmlinux has such a variable, or several, or one with a suffix, which ``place`` refuses."""
        return self.variables.is_named(name)

    def place(self, name: str) -> int:
        """Return the run-time address of a variable.

        Raises:
            NotKnownError: the vmlinux has none of that name, or several.

        """
        place = self.maybe_place(name)
        if place is None:
            raise NotKnownError(f"this vmlinux has no symbol {name}, or several")
        return place

    def maybe_place(self, name: str) -> int | None:
        """Return the run-time address of a variable or function; None if there is none of that name, or several."""
        if name not in self._places:
            self._places[name] = self.variables.place(name)
        return self._places[name]

    def knows(self, path: str) -> bool:
        """Return whether the types have that member (``kprobe.addr``), or struct (``kprobe``)."""
        return self._layouts.get(path) is not None

    def offset(self, path: str) -> int:
        """Return the bytes from the start of a struct to a member.

        Raises:
            NotKnownError: the types do not have it.

        """
        value = self._layouts.get(path)
        if value is None:
            raise NotKnownError(f"no type says where {path} is (types: {self.source})")
        return value

    def size(self, name: str) -> int:
        """Return the size of a struct in bytes; errors as ``offset``."""
        return self.offset(name)

    def read(self, vaddr: int, size: int) -> bytes:
        """Read ``size`` bytes by run-time address.

        Raises:
            NotKnownError: memory does not have all of them.

        """
        data = self.variables.read(vaddr, size) if vaddr >= KERNEL_HALF and size else b""
        if data is None or len(data) < size:
            raise self.lacking(f"memory has no {size} bytes at {vaddr:#x}")
        return data

    def lacking(self, what: str) -> NotKnownError:
        """Make the error of memory that lacks something: a capture has only what it was asked for, a dump has all."""
        return NotKnownError(what) if self.variables.partial else NotReadError(what)

    def require_rest(self, mutex: str, what: str) -> None:
        """Refuse to read what is being changed (``what``).

        Raises:
            NotReadError: the mutex was held.

        """
        if self.variables.is_held(mutex):
            raise NotReadError(f"{what} ({mutex} is held)")

    def number(self, vaddr: int, size: int = 8) -> int:
        """Read an unsigned number of ``size`` bytes by run-time address; errors as ``read``."""
        return int.from_bytes(self.read(vaddr, size), "little")

    def get(self, vaddr: int, path: str, size: int = 8) -> int:
        """Return the member ``path`` of the struct at ``vaddr``, unsigned, of ``size`` bytes; errors as ``read``."""
        return self.number(vaddr + self.offset(path), size)

    def count(self, vaddr: int, path: str, size: int = 4) -> int:
        """Return how many entries something has, as ``get``; errors as ``read``."""
        count = self.get(vaddr, path, size)
        if count > _MOST_COUNTED:
            raise NotReadError(f"{path} at {vaddr:#x} is {count:,}: damaged memory")
        return count

    def variable(self, name: str, size: int = 8) -> int:
        """Return the value of a variable; errors as ``place`` and ``read``."""
        return self.number(self.place(name), size)

    def slots(self, name: str) -> range:
        """Return the run-time addresses of the pointers in an array, as its symbol bounds it; errors as ``place``."""
        place, size = self.place(name), self.variables.size(name)
        if size < 8:
            raise NotKnownError(f"the symbol {name} has no size")
        return range(place, place + size // 8 * 8, 8)

    def text(self, vaddr: int, most: int = _LONGEST_NAME) -> str:
        """Return a string that ends with a zero byte; empty if memory does not have it."""
        data = bytearray()
        while vaddr >= KERNEL_HALF and len(data) < most and b"\0" not in data:
            step = min(most - len(data), 64 - vaddr % 64)
            part = self.variables.read(vaddr, step)
            if part is None:
                return ""
            data += part
            vaddr += step
        return data.partition(b"\0")[0].decode("utf-8", "backslashreplace")

    def name(self, vaddr: int) -> str:
        """Return a name at ``vaddr``, which is never empty; errors as ``read``."""
        name = self.text(vaddr)
        if not name:
            raise self.lacking(f"memory has no name at {vaddr:#x}")
        return name

    def entries(self, head: int, member: str) -> Iterator[int]:
        """Yield structs of a ``list_head`` by the path of their member in it; errors as ``read``."""
        offset = self.offset(member)
        yield from self._follow(self.number(head), offset, head)

    def hash_entries(self, head: int, member: str) -> Iterator[int]:
        """Yield structs of an ``hlist_head`` by the path of their member in it; errors as ``read``."""
        yield from self._follow(self.number(head), self.offset(member), 0, nulls=True)

    def chain(self, first: int, member: str, end: int = 0) -> Iterator[int]:
        """Yield structs up to ``end``, each of which has the address of the next in ``member``; errors as ``read``."""
        yield from self._follow(first, 0, end, self.offset(member))

    def terminated(self, first: int, member: str) -> Iterator[int]:
        """Yield structs of an array, up to the one whose ``member`` is 0; errors as ``read``."""
        each = self.size(member.partition(".")[0])
        for place in range(first, first + each * _MOST, each):
            if not self.get(place, member):
                return
            yield place
        raise NotReadError(f"more than {_MOST:,} entries at {first:#x}, none of which ends them by {member}")

    def _follow(self, node: int, offset: int, end: int, to_next: int = 0, *, nulls: bool = False) -> Iterator[int]:
        seen = set[int]()
        # The last node of an hlist_nulls is odd; no node of any list is.
        while node != end and not (nulls and node & 1):
            if not node:  # in a capture of memory that was being changed: what is behind was not asked for
                raise self.lacking(f"a list leads to 0 after {len(seen):,} entries")
            if node & 1 or node in seen or len(seen) > _MOST:
                raise NotReadError(f"a damaged list: it has more than {len(seen):,} entries, and leads to {node:#x}")
            seen.add(node)
            yield node - offset
            node = self.number(node + to_next)

    def tree_nodes(self, root: int) -> Iterator[int]:
        """Yield nodes of an ``rb_root`` (``rb_node`` by its address), of which the left subtree comes first."""
        to_left, to_right = self.offset("rb_node.rb_left"), self.offset("rb_node.rb_right")
        ready: list[int] = []
        child, seen = self.number(root), 0
        while child or ready:
            while child:
                ready.append(child)
                child = self.number(child + to_left)
                seen += 1
                if seen > _MOST:
                    raise NotReadError(f"a tree of more than {_MOST:,} nodes at {root:#x}")
            node = ready.pop()
            yield node
            child = self.number(node + to_right)

    def array_entries(self, root: int) -> Iterator[int]:
        """Yield pointers in the ``xarray`` (or ``radix_tree_root``) at ``root``."""
        left, nodes = [self.get(root, "xarray.xa_head")], set[int]()
        slots = self.offset("xa_node.slots")
        count = (self.offset("xa_node.marks") - slots) // 8  # XA_CHUNK_SIZE: the marks come right after them
        while left:
            entry = left.pop()
            if entry & _XA_KIND == _XA_NODE and entry > 1 << 12:
                if entry in nodes or len(nodes) > _MOST:
                    raise NotReadError(f"a damaged xarray at {root:#x}: after {len(nodes):,} nodes, {entry:#x}")
                nodes.add(entry)
                data = self.read(entry - _XA_NODE + slots, 8 * count)
                left += [value for k in range(count) if (value := int.from_bytes(data[8 * k : 8 * k + 8], "little"))]
            elif entry and entry & _XA_KIND == 0:
                yield entry
