"""Pictures and pages of traces."""
