"""Places of labgrid's own coordinator: reserved, waited for, put aside, given back. Boards stay off here.

Boards that boot, and die, are in tests/real_kernels/booted/test_farm.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.targets.board_process import BoardProcess, FarmRequest
from prologue_bench.targets.farm import FarmTarget
from tests.support.board.machine import free_port
from tests.support.farm.lab import TAG, Lab, running_lab
from tests.support.needs import needs_dev_module

needs_dev_module("labgrid")
pytestmark = pytest.mark.kernel  # it needs none, but too many processes for `make check`

NAMES = ("left", "right")
TAGS = dict([TAG.split("=")])


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("lab"), NAMES, b"") as made:
        yield made


@pytest.fixture
def wanted(lab: Lab, tmp_path: Path) -> FarmRequest:
    image = tmp_path / "Image"
    image.touch()
    return FarmRequest(lab.environment(image), "main", TAGS)


def test_a_third_campaign_waits_until_a_place_is_free(
    lab: Lab, wanted: FarmRequest, capfd: pytest.CaptureFixture[str]
) -> None:
    processes = [BoardProcess(wanted, {}) for _ in range(3)]
    try:
        taken = {process.take() for process in processes[:2]}
        assert taken == {*NAMES}
        got: list[str] = []
        third = threading.Thread(target=lambda: got.append(processes[2].take()))
        third.start()
        third.join(3)
        assert got == []
        processes[0].close()
        third.join(600)
        assert got
        assert got[0] in NAMES
        assert "waiting for a place with board=virt (reservation " in capfd.readouterr().err
        assert lab.client("places", "--acquired").split() == sorted(NAMES)
    finally:
        for process in processes:
            process.close()
    assert lab.client("reservations") == ""
    assert lab.client("places", "--acquired") == ""


def test_a_place_that_is_put_aside_is_not_got_again(lab: Lab, wanted: FarmRequest) -> None:
    first = BoardProcess(wanted, {})
    place = first.take()
    aside = first.put_aside("board lost: it burns")
    assert list(aside) == [place]
    assert lab.client("places", "--acquired") == ""
    assert aside[place] in lab.client("reservations")  # nobody else gets it meanwhile
    second = BoardProcess(wanted, aside)
    other = second.take()
    assert other != place
    assert aside[place] not in lab.client("reservations")
    both = second.put_aside("so does this one")
    assert sorted(both) == sorted(NAMES)  # else a kernel that boots nowhere would alternate between them for ever
    third = BoardProcess(wanted, both)
    with pytest.raises(GuestLostError, match="no place with board=virt is left: put aside: left, right"):
        third.take()
    third.close()
    assert lab.client("reservations") == ""


def test_a_place_that_was_taken_is_ours_at_once(lab: Lab, wanted: FarmRequest) -> None:
    """An empty Image boots nothing; but labgrid must not say that the place is not acquired, which it learns later."""
    process = BoardProcess(wanted, {})
    process.take()
    with pytest.raises(GuestLostError, match=r"board lost: .*not done within 4 s"):
        process.record(None, None, 4, "true")
    process.close()
    assert lab.client("places", "--acquired") == ""


def test_a_campaign_that_is_ended_while_it_acquires_gives_the_place_back(lab: Lab, tmp_path: Path) -> None:
    """The coordinator has acquired it, and its answer is under way."""
    code = (
        "import asyncio, signal, sys; from prologue_bench.targets import board_process, places\n"
        "signal.signal(signal.SIGTERM, board_process._end)\n"
        "class Slow(places.CoordinatorPlaces):\n"
        "    def _connect(self):\n"
        "        super()._connect()\n"
        "        acquire = self._session.stub.AcquirePlace\n"
        "        async def slow(*words, **options):\n"
        "            await acquire(*words, **options)\n"
        "            print('acquired', flush=True)\n"
        "            await asyncio.sleep(100)\n"
        "        self._session.stub.AcquirePlace = slow\n"
        "held = Slow(sys.argv[1], {'board': 'virt'}, {})\n"
        "try: held.take()\n"
        "except KeyboardInterrupt: held.close()\n"
        "else: sys.exit('it was not ended')"
    )
    errors = tmp_path / "errors"
    with (
        errors.open("w") as log,
        subprocess.Popen([sys.executable, "-c", code, lab.address], stdout=subprocess.PIPE, stderr=log) as ended,
    ):
        assert ended.stdout is not None
        assert ended.stdout.readline() == b"acquired\n", errors.read_text()
        assert lab.client("places", "--acquired").strip() in NAMES
        ended.terminate()
    assert (ended.returncode, errors.read_text()) == (0, "")
    assert lab.client("places", "--acquired") == ""
    assert lab.client("reservations") == ""


def test_a_place_that_somebody_else_has_now_stays_theirs(
    lab: Lab, wanted: FarmRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = BoardProcess(FarmRequest(wanted.environment, "main", {"name": "right"}), {})
    try:
        assert ours.take() == "right"
        (token,) = [word.removesuffix(":").strip("'") for word in lab.client("reservations").split()[1:2]]
        lab.client("cancel-reservation", token)
        monkeypatch.setenv("LG_USERNAME", "stranger")
        lab.client("-p", "right", "release", "--kick")
        lab.client("-p", "right", "acquire")
    finally:
        ours.close()
    assert lab.client("places", "--acquired").strip() == "right"
    lab.client("-p", "right", "release")


def test_wrong_tags_name_the_places(wanted: FarmRequest) -> None:
    with (
        FarmTarget(FarmRequest(wanted.environment, "main", {"board": "rpi4"})) as farm,
        pytest.raises(BenchError) as raised,
    ):
        farm.facts()
    assert raised.value.message.endswith("no place has board=rpi4; its places: left (board=virt), right (board=virt)")
    assert raised.value.exit_code == 2


def test_a_target_of_another_place_is_refused(lab: Lab, wanted: FarmRequest) -> None:
    """Of one that the user has acquired: it would work, and be another one than was reserved."""
    fixed = wanted.environment.with_name("fixed.yaml")
    fixed.write_text(wanted.environment.read_text().replace("!template $LG_PLACE", "left"))
    lab.client("-p", "left", "acquire")
    farm = FarmTarget(FarmRequest(fixed, "main", {"name": "right"}))
    with (
        farm,
        pytest.raises(BenchError, match=r"fixed\.yaml: main: uses left, not the reserved right: write `RemotePl"),
    ):
        farm.facts()
    lab.client("-p", "left", "release")
    assert lab.client("places", "--acquired") == ""


def test_a_place_of_ones_own_reservation_has_its_name(lab: Lab, wanted: FarmRequest) -> None:
    """Results of two boards would else be those of one board named after the target."""
    token = lab.client("reserve", "--wait", "--shell", "name=right").strip().removeprefix("export LG_TOKEN=")
    lab.client("-p", f"+{token}", "acquire")
    code = (
        "import sys; from pathlib import Path; from prologue_bench.targets.labgrid import LabgridTarget\n"
        "target = LabgridTarget(Path(sys.argv[1])); target._board(None); print('it is', target._name)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, str(wanted.environment)], check=True, capture_output=True, text=True,
        env={**os.environ, "LG_PLACE": "+", "LG_TOKEN": token},
    ).stdout  # fmt: skip
    assert "it is right\n" in said
    lab.client("-p", "right", "release")
    lab.client("cancel-reservation", token)


def test_no_coordinator(wanted: FarmRequest) -> None:
    text = wanted.environment.read_text()
    address = f"127.0.0.1:{free_port()}"
    lonely = wanted.environment.with_name("lonely.yaml")
    lonely.write_text("\n".join(f"  coordinator_address: {address}" if "coordinator_address" in line else line
                                for line in text.splitlines()))  # fmt: skip
    with (
        FarmTarget(FarmRequest(lonely, "main", TAGS)) as farm,
        pytest.raises(BenchError, match=f"coordinator {address}"),
    ):
        farm.facts()


def waits(process: BoardProcess) -> None:
    with suppress(GuestLostError):  # it is ended before it gets a place
        process.take()


def test_an_exporter_that_is_gone(lab: Lab, wanted: FarmRequest, capfd: pytest.CaptureFixture[str]) -> None:
    """Last: it is not started again."""
    using = BoardProcess(FarmRequest(wanted.environment, "main", {"name": "left"}), {})
    assert using.take() == "left"
    lab.kill("left")
    for _ in range(2):  # labgrid itself says 'params', then 'cls'
        with pytest.raises(GuestLostError, match=r"^board lost: no exporter has "):
            using.record(None, None, 30, "true")
    using.close()
    first, second = BoardProcess(wanted, {}), BoardProcess(wanted, {})
    try:
        assert first.take() == "right"
        threading.Thread(target=waits, args=(second,)).start()
        end = time.monotonic() + 600
        while "left: put aside: no exporter has " not in (said := capfd.readouterr().err):
            assert time.monotonic() < end, said
            time.sleep(0.2)
    finally:
        for process in (first, second):
            process.close()
