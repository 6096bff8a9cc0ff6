"""The parameters of a function at its entry, by BTF and the procedure call standard.

BTF has prototypes only: where a value is later, and what locals a function has, DWARF alone says.
"""

from __future__ import annotations

from prologue.dwarf.btf import Btf
from prologue.dwarf.c_types import CType
from prologue.probe.btf_types import c_type_of_btf
from prologue.probe.procedure_call import passed
from prologue.probe.scopes import Variable
from prologue.probe.storage import ENTRY_ONLY, Missing


class BtfVariables:
    """The parameters of a function as BTF has its prototype, for ``find_arguments``.

    Args:
        btf: the kernel's types.
        name: the function, of which there is only one.
        prototype: its type.
        at_entry: nothing of it has run yet.

    """

    def __init__(self, btf: Btf, name: str, prototype: int, *, at_entry: bool) -> None:
        self._btf, self._name, self._at_entry = btf, name, at_entry
        self._prototype = btf.type(prototype)

    @property
    def function_name(self) -> str:
        """Name of the function."""
        return self._name

    def parameters(self) -> list[Variable]:
        """Return the parameters, in order; those without a name, of a variable number, are left out."""
        typed = [(self._btf.text(name), c_type_of_btf(self._btf, kind)) for name, kind in self._prototype.items if kind]
        places = passed([kind for _, kind in typed])
        return [
            Variable(name, kind, place if self._at_entry or isinstance(place, Missing) else Missing(ENTRY_ONLY))
            for (name, kind), place in zip(typed, places, strict=True)
            if name
        ]

    def variables(self) -> list[Variable]:
        """Return the parameters: BTF has no locals."""
        return self.parameters()

    def find(self, name: str) -> Variable | None:
        """Find a parameter; None if there is none of that name."""
        return next((variable for variable in self.parameters() if variable.name == name), None)

    def names(self) -> list[str]:
        """Return the names of the parameters."""
        return [variable.name for variable in self.parameters()]

    def return_type(self) -> CType:
        """Return the type of the function's value."""
        return c_type_of_btf(self._btf, self._prototype.value)

    def global_type(self, name: str) -> CType | None:
        """Return the type of a global variable; None if BTF has none of that name: it may have per-CPU ones only."""
        number = self._btf.variable(name)
        return c_type_of_btf(self._btf, number) if number is not None else None
