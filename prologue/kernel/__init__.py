"""Reads what ftrace sees in a vmlinux or module: records, sites, layouts, other patchers' tables, marker, state."""
