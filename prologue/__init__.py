"""Build-time ftrace prologues for arm64 Linux kernels: the library (docs/library.md); the command is ``prologue``.

Names are loaded when they are first used: the command begins here, too, and has to start fast.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # typing's has this value, too, and takes milliseconds to load
if TYPE_CHECKING:
    from prologue.errors import (
        BusyError,
        InputError,
        InternalError,
        Location,
        OutputError,
        PrologueError,
        RefusedError,
        UndecidedError,
        UsageError,
    )
    from prologue.gate.verify import Verified
    from prologue.kernel.kernel import Kernel
    from prologue.kernel.module import Module
    from prologue.kernel.sites import Sites
    from prologue.library.files import open  # noqa: A004 - users write prologue.open
    from prologue.library.patching import make_plan, write
    from prologue.library.verifying import verify
    from prologue.live.audit.outcome import Audit
    from prologue.live.library import System, open_system
    from prologue.plan.edits import PatchPlan
    from prologue.probe.library import judge_probes
    from prologue.probe.verdict import ProbeVerdict
    from prologue.rules.base import Finding
    from prologue.rules.engine import ApprovedPlan
    from prologue.trace.library import KernelTrace, StaleText, TraceCheck, open_trace

    __all__ = [
        "ApprovedPlan",
        "Audit",
        "BusyError",
        "Finding",
        "InputError",
        "InternalError",
        "Kernel",
        "KernelTrace",
        "Location",
        "Module",
        "OutputError",
        "PatchPlan",
        "ProbeVerdict",
        "PrologueError",
        "RefusedError",
        "Sites",
        "StaleText",
        "System",
        "TraceCheck",
        "UndecidedError",
        "UsageError",
        "Verified",
        "judge_probes",
        "make_plan",
        "open",
        "open_system",
        "open_trace",
        "verify",
        "write",
    ]

_HOMES = {
    "prologue.errors": (
        "BusyError", "InputError", "InternalError", "Location", "OutputError", "PrologueError", "RefusedError",
        "UndecidedError", "UsageError",
    ),
    "prologue.gate.verify": ("Verified",),
    "prologue.kernel.kernel": ("Kernel",),
    "prologue.kernel.module": ("Module",),
    "prologue.kernel.sites": ("Sites",),
    "prologue.library.files": ("open",),
    "prologue.library.patching": ("make_plan", "write"),
    "prologue.library.verifying": ("verify",),
    "prologue.plan.edits": ("PatchPlan",),
    "prologue.rules.base": ("Finding",),
    "prologue.rules.engine": ("ApprovedPlan",),
}  # fmt: skip
"""Where each name of the tool is; ``companions`` has the others. A test compares both with the imports above."""

if not TYPE_CHECKING:  # otherwise every name that is mistyped would be an object to type checkers

    def __getattr__(name: str) -> object:
        """Load a public name (PEP 562)."""
        from importlib import import_module

        home = next((home for home, names in _HOMES.items() if name in names), None)
        if home is None:
            companions = import_module("prologue.companions")
            if name == "__all__":  # of a star and of dir(): without the names of companions that are not installed
                brought = (companion.names for companion in companions.installed())
                return sorted(public for names in (*_HOMES.values(), *brought) for public in names)
            home, why = companions.home_of(name), companions.why_absent(name=name)
            if home is None or why:
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}{why and ': ' + why}")

        value: object = getattr(import_module(home), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return __getattr__("__all__")


del TYPE_CHECKING
