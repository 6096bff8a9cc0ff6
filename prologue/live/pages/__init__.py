"""Pages of audits and hooks for a browser."""
