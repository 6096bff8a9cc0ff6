"""``prologue live probe`` on the releases that test_live.py does not boot, and its end, whatever ends it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.real_kernels.live_probe_examples import LEFT, check_examples
from tests.support.live_guest import HOST, TRACING, Guest, live_guest
from tests.support.needs import needs_kernel, needs_modules

pytestmark = [pytest.mark.kernel, pytest.mark.qemu, pytest.mark.extended, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module", params=["bullseye", "sid", "trixie-backports"])
def guest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    kernel = needs_kernel(request.param)
    modules = needs_modules(kernel)
    directory = tmp_path_factory.mktemp(request.param)
    with live_guest(kernel.vmlinux, directory, package=modules, modules=("loop",)) as made:
        yield made


def test_probes_are_traced(guest: Guest, capsys: pytest.CaptureFixture[str]) -> None:
    check_examples(guest, capsys)


@pytest.mark.parametrize(("end", "status"), [(signal.SIGINT, 0), (signal.SIGKILL, -9)])
def test_nothing_stays_of_it(guest: Guest, end: signal.Signals, status: int) -> None:
    """Whether Ctrl-C ends it, or somebody kills it; what others have set stays."""
    guest.shell(f"echo 'p:theirs vfs_write' >>{TRACING}/kprobe_events")
    reading = guest.shell("(while read -r line </proc/uptime; do sleep 1; done) >/dev/null 2>&1 & echo $!").strip()
    try:
        before = guest.shell(LEFT)
        process = _probing(guest)
        process.send_signal(end)
        process.communicate(timeout=600)
        for _ in range(30):
            if guest.shell(LEFT) == before:
                break
            time.sleep(1)
        assert guest.shell(LEFT) == before
        assert process.returncode == status
    finally:
        guest.shell(f"kill {reading}; echo -:theirs >>{TRACING}/kprobe_events")


def _probing(guest: Guest) -> subprocess.Popen[str]:
    """A trace of what reads, which has printed its first event."""
    options = ["vfs_read count", "--seconds", "0"]
    command = [sys.executable, "-m", "prologue", "live", "probe", str(guest.vmlinux), HOST, guest.ssh, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert " vfs_read: (vfs_read+0x0) " in process.stdout.readline()
    return process
