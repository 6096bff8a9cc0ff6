"""A QEMU guest that plays the board: Debian's kernel, an ssh server, kexec."""
