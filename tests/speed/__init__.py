"""How fast the tool and its readers of traces are, beside their peers: programs, not tests."""
