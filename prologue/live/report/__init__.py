"""Reports of audits, hooks and judged writes."""
