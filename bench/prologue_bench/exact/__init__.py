"""QEMU plugins: exact counts of boots and workloads under icount, recorded writes, recorded execution."""
