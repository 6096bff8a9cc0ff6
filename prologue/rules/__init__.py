"""The rule catalogue: one file per rule, an explicit registry, and the engine that runs them."""
