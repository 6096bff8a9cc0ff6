"""Views of a trace: source lines, call trees, statistics, summaries."""
