"""Debian's arm64 kernels as tests and the developers' programs need them: fetched, or built from Debian's sources."""
