"""``python -m prologue``."""

import sys

from prologue.cli.main import main

sys.exit(main())
