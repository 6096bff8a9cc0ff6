"""A board for an exporter, as a program: a power switch with a REST interface, a serial line on a TCP port, a guest.

``python -m tests.support.farm.board POWER SERIAL DIRECTORY INITRAMFS``: two ports of 127.0.0.1, and where its Image is
expected when it is switched on (what a board would load over TFTP). Power is labgrid's model ``rest``: GET says 1 or 0,
PUT sets it. All that the guest prints goes to whoever is connected to the serial line.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Final

from prologue_bench.guest.vm import Machine
from prologue_bench.host.child import die_with_parent

IMAGE: Final = "Image"


class Board:
    """The guest, off or on, and the line."""

    def __init__(self, directory: Path, initramfs: Path) -> None:
        self._image = directory / IMAGE
        self._initramfs = initramfs
        self._guest: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None

    @property
    def on(self) -> bool:
        return self._guest is not None and self._guest.poll() is None

    def switch(self, on: bool) -> None:
        if self._guest is not None:
            self._guest.kill()
            self._guest.wait()
            self._guest = None
        if on:
            machine = Machine(cpus=1, memory=512)
            self._guest = subprocess.Popen(
                machine.command(self._image, self._initramfs, "console=ttyAMA0 loglevel=4"),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one prctl
            )  # fmt: skip
            threading.Thread(target=self._listen, args=(self._guest,), daemon=True).start()

    def _listen(self, guest: subprocess.Popen[bytes]) -> None:
        assert guest.stdout is not None
        while data := guest.stdout.read(4096):
            with contextlib.suppress(OSError):
                if self._line is not None:
                    self._line.sendall(data)

    def serve_line(self, listening: socket.socket) -> None:
        """Take one connection after the other; what comes is typed."""
        while True:
            self._line, _ = listening.accept()
            with self._line as line, contextlib.suppress(OSError):
                while data := line.recv(4096):
                    if self._guest is not None and self._guest.stdin is not None:
                        self._guest.stdin.write(data)


def switch_of(board: Board) -> type[BaseHTTPRequestHandler]:
    class Switch(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"1" if board.on else b"0")

        def do_PUT(self) -> None:
            board.switch(self.rfile.read(int(self.headers["Content-Length"])) == b"1")
            self._answer(b"")

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named so in the base class
            """Say nothing."""

    return Switch


def main() -> None:
    power, serial, directory, initramfs = sys.argv[1:]
    board = Board(Path(directory), Path(initramfs))
    threading.Thread(
        target=board.serve_line, args=(socket.create_server(("127.0.0.1", int(serial))),), daemon=True
    ).start()
    # One thread: the guest is killed when the thread that started it ends.
    switch = HTTPServer(("127.0.0.1", int(power)), switch_of(board))
    print("ready", flush=True)
    switch.serve_forever()


if __name__ == "__main__":
    main()
