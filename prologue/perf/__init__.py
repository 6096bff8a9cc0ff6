"""Text pokes of perf: perf.data files and the text of ``perf script``, read and written."""
