"""Commands on traces."""
