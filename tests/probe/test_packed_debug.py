"""Debug information that is stored compressed gives the places and arguments that it gives as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prologue.dwarf.packed_debug import unpack_debug
from prologue.elf.image import ElfImage
from prologue.errors import InputError
from prologue.probe.language import parse_request
from prologue.probe.places import find_places
from tests.mini_kernel.build import run_command
from tests.probe.made_kernel import module_target
from tests.probe.test_inlined import compiled
from tests.support.needs import needs_tools

ASKED = ("outer", "split", "calls:2", "some.c:82")
FORMS = {
    "zstd": ("llvm-objcopy-19", "--compress-debug-sections=zstd"),
    "zlib": ("aarch64-linux-gnu-objcopy", "--compress-debug-sections=zlib"),
}


@pytest.fixture(params=list(FORMS))
def packed(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """A module as it was compiled, and with compressed debug sections, which have relocations."""
    tool, option = FORMS[request.param]
    needs_tools(tool)
    plain = compiled(tmp_path).path
    path = plain.with_name("packed.ko")
    run_command([tool, option, str(plain), str(path)])
    return plain, path


def test_every_form_gives_the_same_places(packed: tuple[Path, Path]) -> None:
    plain, other = (module_target(path) for path in packed)
    for asked in ASKED:
        places = [
            [(target.place_text(place.vaddr), place.inlined_in) for place in find_places(target, parse_request(asked))]
            for target in (plain, other)
        ]
        assert places[0] == places[1]
        assert places[0]


def test_a_place_that_needs_no_debug_information_is_judged_without_it(packed: tuple[Path, Path]) -> None:
    plain, path = packed
    content = bytearray(path.read_bytes())
    section = next(s for s in ElfImage(path).sections if s.name == ".debug_info")
    content[section.offset : section.offset + section.size] = b"\xff" * section.size
    path.write_bytes(content)
    target = module_target(path)
    assert [place.vaddr for place in find_places(target, parse_request("outer+4"))]
    target.trim()
    with pytest.raises(InputError, match="debug_info"):
        find_places(target, parse_request("outer"))
    shutil.copy(plain, path)
    assert unpack_debug(ElfImage(path)) is None


def test_a_size_that_is_not_what_it_unpacks_to_is_damage(packed: tuple[Path, Path]) -> None:
    path = packed[1]
    content = bytearray(path.read_bytes())
    section = next(s for s in ElfImage(path).sections if s.name == ".debug_info")
    content[section.offset + 8] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r".debug_info unpacks to \d+ bytes, its header has \d+"):
        unpack_debug(ElfImage(path))
