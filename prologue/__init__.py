"""Build-time ftrace prologues for arm64 Linux kernels."""

__version__ = "0.1.0"
