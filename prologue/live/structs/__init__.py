"""Structs of a running kernel in memory: the offsets of their members, and the lists that they are on."""
