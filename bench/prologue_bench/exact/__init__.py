"""Exact counts under icount: plugins, boots, workloads."""
