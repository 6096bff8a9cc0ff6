"""Shows what ran: source lines, call trees, statistics, summaries."""
