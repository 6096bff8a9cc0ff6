"""Commands on running kernels and on writes to their text."""
