"""Commands on patching protocols."""
