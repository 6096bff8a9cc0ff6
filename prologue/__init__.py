"""Build-time ftrace prologues for arm64 Linux kernels: the library (docs/library.md); the command is ``prologue``.

Names are loaded when they are first used: the command begins here, too, and has to start fast.
"""

__version__ = "0.1.0"

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
    "open",
    "plan",
    "probe",
    "system",
    "trace",
    "verify",
    "write",
]

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
    from prologue.library.patching import plan, write
    from prologue.library.verifying import verify
    from prologue.live.audit.run import Audit
    from prologue.live.library import System, system
    from prologue.plan.edits import PatchPlan
    from prologue.probe.library import probe
    from prologue.probe.verdict import ProbeVerdict
    from prologue.rules.base import Finding
    from prologue.rules.engine import ApprovedPlan
    from prologue.trace.library import KernelTrace, StaleText, TraceCheck, trace

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
    "prologue.library.patching": ("plan", "write"),
    "prologue.probe.library": ("probe",),
    "prologue.live.library": ("System", "system"),
    "prologue.trace.library": ("KernelTrace", "StaleText", "TraceCheck", "trace"),
    "prologue.library.verifying": ("verify",),
    "prologue.live.audit.run": ("Audit",),
    "prologue.probe.verdict": ("ProbeVerdict",),
    "prologue.plan.edits": ("PatchPlan",),
    "prologue.rules.base": ("Finding",),
    "prologue.rules.engine": ("ApprovedPlan",),
}  # fmt: skip
"""Where each name is; a test compares it with the imports above."""

# Three rooms are named as functions are. Loading a room binds its name here, once: so it is done now, and undone.
for _room in ("plan", "probe", "trace"):
    __import__(f"prologue.{_room}")
    del globals()[_room]
del _room


if not TYPE_CHECKING:  # otherwise every name that is mistyped would be an object to type checkers

    def __getattr__(name: str) -> object:
        """Load a public name (PEP 562)."""
        home = next((home for home, names in _HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value: object = getattr(import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)


del TYPE_CHECKING
