"""What several commands of the bench take where an option is not given.

The grammar must not load the bench, whose own callers get the same from ``Machine``, ``QemuTarget`` and ``MARGIN``:
a test compares them.
"""

from __future__ import annotations

from typing import Final

ACCEL: Final = "tcg"
CPU: Final = "cortex-a57"  # but the host's own under KVM
CPUS: Final = 2
MEMORY: Final = 1024  # MiB
TIMEOUT: Final = 600  # seconds
MARGIN: Final = 0.01
