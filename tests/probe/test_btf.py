"""Parameters by BTF: their types, and where the procedure call standard puts them."""

from __future__ import annotations

import random

import pytest

from prologue.dwarf.btf import Btf, BtfKind
from prologue.errors import InputError
from prologue.probe.btf_variables import BtfVariables, c_type_of_btf
from prologue.probe.storage import ENTRY_ONLY, InMemory, InRegister, Missing, Pieces
from tests.support.btf import BtfMaker

SIGNED = 1 << 24


class Made(BtfMaker):
    """Types that the tests have in common."""

    def __init__(self) -> None:
        super().__init__()
        self.int = self.add(BtfKind.INT, "int", 4, (SIGNED | 32,))
        self.long = self.add(BtfKind.INT, "unsigned long", 8, (64,))
        self.int128 = self.add(BtfKind.INT, "__int128", 16, (SIGNED | 128,))
        self.char = self.add(BtfKind.INT, "char", 1, (8,))
        self.text_pointer = self.add(BtfKind.PTR, "", self.add(BtfKind.CONST, "", self.char))
        self.small = self.struct("small", 4, self.int)
        self.pair = self.struct("pair", 12, self.long, self.int)
        self.large = self.struct("large", 24, self.long, self.long, self.long)
        self.wide = self.struct("wide", 16, self.int128)

    def struct(self, name: str, size: int, *members: int) -> int:
        items = [(self.text(f"m{k}"), kind, 64 * k) for k, kind in enumerate(members)]
        return self.add(BtfKind.STRUCT, name, size, *items)

    def function(self, *parameters: int, returns: int = 0, at_entry: bool = True) -> BtfVariables:
        items = [(self.text(f"p{k}") if kind else 0, kind) for k, kind in enumerate(parameters)]
        proto = self.add(BtfKind.FUNC_PROTO, "", returns, *items)
        self.add(BtfKind.FUNC, "f", proto)
        btf = Btf(self.done(), "test")
        number = btf.function("f")
        assert number == proto
        return BtfVariables(btf, "f", number, at_entry=at_entry)


def x(number: int) -> InRegister:
    return InRegister(f"%x{number}")


def test_registers_and_stack() -> None:
    """AAPCS64, 6.8.2: what does not fit into the registers that are left goes to the stack, and all after it."""
    made = Made()
    types = (
        made.int,
        made.text_pointer,
        made.small,
        made.pair,
        made.large,
        made.long,
        made.pair,
        made.char,
        made.large,
    )
    found = made.function(*types, 0)
    assert [variable.storage for variable in found.parameters()] == [
        x(0), x(1), x(2), Pieces(((64, x(3)), (32, x(4)))), InMemory("%x5"), x(6),
        InMemory("%sp", 0), InMemory("%sp", 16), InMemory("+24(%sp)"),
    ]  # fmt: skip
    assert found.names() == [f"p{k}" for k in range(9)]  # and not those that a variable number has


def test_where_a_parameter_of_an_unusual_type_is_before_it() -> None:
    """16-byte numbers want an even register: neither that one's place is said, nor any after it."""
    for unusual in ("int128", "wide"):
        made = Made()
        before, odd, after = made.function(made.int, getattr(made, unusual), made.int).parameters()
        assert before.storage == x(0)
        assert isinstance(odd.storage, Missing)
        assert "its type alone does not say how" in odd.storage.reason
        assert isinstance(after.storage, Missing)
        assert "is before it whose type" in after.storage.reason


def test_after_the_entry_nothing_is_known() -> None:
    made = Made()
    (variable,) = made.function(made.int, at_entry=False).parameters()
    assert variable.storage == Missing(ENTRY_ONLY)


def test_types() -> None:
    made = Made()
    alias = made.add(BtfKind.TYPEDEF, "pair_t", made.add(BtfKind.CONST, "", made.pair))
    fields = (made.text("low"), made.int, 3 << 24), (made.text("high"), made.int, 5 << 24 | 3)
    bits = made.add(BtfKind.STRUCT, "bits", 4, *fields, flag=True)
    enum = made.add(BtfKind.ENUM, "colour", 4, (made.text("RED"), 0xFFFFFFFF), (made.text("BLUE"), 1), flag=True)
    enum64 = made.add(BtfKind.ENUM64, "big", 8, (made.text("TOP"), 1, 1 << 31))
    array = made.add(BtfKind.ARRAY, "", 0, (made.int, made.long, 7))
    declared = made.add(BtfKind.FWD, "later", 0, flag=True)
    pointer = made.add(BtfKind.CONST, "", made.add(BtfKind.PTR, "", alias))
    btf = Btf(made.done(), "test")
    kind = c_type_of_btf(btf, pointer)
    assert (kind.kind, kind.name, kind.target.name, kind.target.size) == ("pointer", "pair_t *", "pair_t", 12)
    assert [(m.name, m.bit_offset, m.bits) for m in c_type_of_btf(btf, bits).members] == [("low", 0, 3), ("high", 3, 5)]
    assert c_type_of_btf(btf, enum).enumerators == {-1: "RED", 1: "BLUE"}
    assert c_type_of_btf(btf, enum64).enumerators == {1 << 63 | 1: "TOP"}
    assert (c_type_of_btf(btf, array).name, c_type_of_btf(btf, array).size) == ("int[7]", 28)
    assert (c_type_of_btf(btf, declared).name, c_type_of_btf(btf, declared).size) == ("union later", None)
    assert c_type_of_btf(btf, made.text_pointer).name == "const char *"
    assert c_type_of_btf(btf, 0).kind == "void"


def module_of(kernel: BtfMaker, number: int) -> BtfMaker:
    """A module with a struct of its own, a function whose name the kernel has, too, and one that has its own name."""
    made = BtfMaker(kernel)
    own = made.add(BtfKind.STRUCT, "own", 8, (made.text("text"), number, 0))
    items = ((made.text("p0"), made.add(BtfKind.PTR, "", own)), (made.text("argument"), number))
    proto = made.add(BtfKind.FUNC_PROTO, "", number, *items)
    made.add(BtfKind.FUNC, "f", proto)
    made.add(BtfKind.FUNC, "own_function", proto)
    return made


def test_a_module_goes_on_after_its_kernel() -> None:
    kernel = Made()
    in_kernel = kernel.function(kernel.int)
    base = Btf(kernel.done(), "vmlinux")
    module = Btf(module_of(kernel, kernel.text_pointer).done(), "module", base)
    for name in ("f", "own_function"):
        proto = module.function(name)
        assert proto is not None
        first, second = BtfVariables(module, name, proto, at_entry=True).parameters()
        assert (first.name, first.type.name, first.type.target.size) == ("p0", "struct own *", 8)
        (member,) = first.type.target.members
        assert (member.name, member.type.name) == ("text", "const char *")
        assert (second.name, second.type.name) == ("argument", "const char *")
        assert module.offset("own.text") == 0
    assert [variable.name for variable in in_kernel.parameters()] == ["p0"]
    assert base.function("own_function") is None
    assert module.size("pair") is None  # it is the kernel's


def test_a_module_of_another_kernel_is_refused() -> None:
    """A string more or less, and each of the module's begins elsewhere."""
    kernel = Made()
    module = module_of(kernel, kernel.int).done()
    for name in ("a", "longer"):
        other = Made()
        other.add(BtfKind.FWD, name, 0)
        with pytest.raises(InputError, match="made with another kernel's: name its own kernel"):
            Btf(module, "module", Btf(other.done(), "vmlinux"))
    with pytest.raises(InputError, match="BTF is damaged"):
        Btf(module[:-1], "module", Btf(kernel.done(), "vmlinux"))


def test_damage_is_one_error() -> None:
    made = Made()
    number = made.add(BtfKind.PTR, "", 1000)
    with pytest.raises(InputError, match="BTF is damaged"):
        _ = c_type_of_btf(Btf(made.done(), "test"), number).target


def test_a_type_that_leads_to_itself_ends() -> None:
    """As in damaged BTF: through names, pointers, arrays, and parts."""
    made = BtfMaker()
    names = [
        made.add(BtfKind.TYPEDEF, "a", 1),
        made.add(BtfKind.PTR, "", 2),
        made.add(BtfKind.ARRAY, "", 0, (3, 3, 2)),
        made.add(BtfKind.STRUCT, "s", 16, (0, 5, 0), (0, 5, 64)),
        made.add(BtfKind.UNION, "u", 16, (0, 4, 0), (0, 4, 0)),
    ]
    made.add(BtfKind.FUNC, "f", made.add(BtfKind.FUNC_PROTO, "", 0, *((made.text(f"p{k}"), k) for k in names)))
    btf = Btf(made.done(), "test")
    for number in names:
        assert c_type_of_btf(btf, number).member("nothing") is None
    proto = btf.function("f")
    assert proto is not None
    assert len(BtfVariables(btf, "f", proto, at_entry=True).parameters()) == len(names)


@pytest.mark.parametrize("of_module", [False, True])
def test_damage_anywhere_is_one_error(*, of_module: bool) -> None:
    made, chance, read = Made(), random.Random(1), 0  # noqa: S311 - not a secret
    made.function(made.int, made.text_pointer, made.small, made.pair, made.large, made.wide, made.char)
    base = Btf(made.done(), "vmlinux") if of_module else None
    good, name = (module_of(made, made.pair).done(), "own_function") if of_module else (made.done(), "f")
    for _ in range(300):
        data = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            btf = Btf(bytes(data), "test", base)
            number = btf.function(name)
            if number is not None:
                read += len(BtfVariables(btf, name, number, at_entry=True).parameters()) > 0
        except InputError:
            continue
    assert 0 < read < 300
