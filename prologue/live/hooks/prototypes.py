"""Prototypes of the kernel's functions and of what calls them, by BTF: a callback has the one of its member.

Kernels with kCFI trap on any other; those without would call it with arguments of another meaning.
"""

from __future__ import annotations

from typing import Final

from prologue.live.hooks.inventory import Inventory
from prologue.live.hooks.listener import Listener

# Members by the kind of a listener and the role of its callback; other callbacks are not compared.
_MEMBERS: Final = {
    ("ftrace_ops", "callback"): ("ftrace_ops", "func"),
    ("ftrace_ops", "pid filter"): ("ftrace_ops", "func"),
    ("kprobe", "handler"): ("kprobe", "pre_handler"),
    ("kprobe", "after"): ("kprobe", "post_handler"),
    ("kretprobe", "handler"): ("kretprobe", "handler"),
    ("kretprobe", "entry"): ("kretprobe", "entry_handler"),
    ("fprobe", "entry"): ("fprobe", "entry_handler"),
    ("fprobe", "exit"): ("fprobe", "exit_handler"),
    ("function graph", "entry"): ("fgraph_ops", "entryfunc"),
    ("function graph", "return"): ("fgraph_ops", "retfunc"),
}
_DIRECT: Final = frozenset({("direct call", "trampoline"), ("ftrace_ops", "direct call")})


def misfit(inventory: Inventory, listener: Listener, role: str, vaddr: int) -> str:
    """Say why a function of the kernel's own text cannot be that callback; empty if it can, or if BTF does not say."""
    btf = inventory.objects.btf
    if btf is None:
        return ""
    shapes = _shapes(inventory, vaddr)
    if not shapes:
        return ""
    if (listener.kind, role) in _DIRECT:
        return "a function of C: what is called directly has to keep the arguments of the traced function"
    if listener.kind == "tracepoint":
        wanted = btf.parameters(btf.typedef(f"btf_trace_{listener.name}"))
    else:
        member = _MEMBERS.get((listener.kind, role))
        wanted = None if member is None else btf.parameters(btf.member(*member))
    if wanted is None or any(_fits(wanted, shape) for shape in shapes):
        return ""
    return "a function with another prototype"


def _shapes(inventory: Inventory, vaddr: int) -> list[tuple[str, ...]]:
    """Return the parameters of every function that begins there; none if BTF lacks one of them, or has several.

    Identical functions may have been folded into one; functions of one name, one of which BTF has, are not known.
    """
    objects, kernel = inventory.objects, inventory.kernel
    shapes = []
    for name in kernel.symbols.names_at(vaddr - kernel.slide & (1 << 64) - 1):
        assert objects.btf is not None  # noqa: S101 - the caller has looked
        shape = objects.btf.parameters(objects.btf.function(name)) if objects.maybe_place(name) == vaddr else None
        if shape is None:
            return []
        shapes.append(shape)
    return shapes


def _fits(wanted: tuple[str, ...], shape: tuple[str, ...]) -> bool:
    """Return whether parameters are of the same kinds; a pointer to no struct stands for any pointer."""
    return len(wanted) == len(shape) and all(
        want == have or (want[:1] == have[:1] == "*" and "*" in (want, have))
        for want, have in zip(wanted, shape, strict=True)
    )
