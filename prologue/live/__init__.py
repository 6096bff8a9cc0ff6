"""Reads kernels that run or ran: their memory, their text, who wrote it, and where probes can be put."""
