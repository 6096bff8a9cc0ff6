"""Whether a virtual machine executes text as it is in memory, when one CPU writes it and the other one runs it."""
