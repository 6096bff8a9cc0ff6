"""Makes the file that is really running: a vmlinux or a module with the text that a kernel's memory has."""
