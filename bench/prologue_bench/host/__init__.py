"""Resources of this host: programs on PATH, the cache, child processes, progress, and lines of a console."""
