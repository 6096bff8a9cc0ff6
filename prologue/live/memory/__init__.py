"""Reads the memory of a kernel that runs or ran: kcore, dumps, captures, other machines. Knows nothing of ftrace."""
