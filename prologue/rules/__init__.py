"""The rule catalogue: the rules of files and of what runs, their registry, and the engine that runs them."""
