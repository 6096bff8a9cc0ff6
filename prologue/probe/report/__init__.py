"""Reports of verdicts, lines and traces of kprobes."""
