"""Build-time ftrace prologues for arm64 Linux kernels."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("prologue")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"
