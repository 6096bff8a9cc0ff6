"""A freestanding kernel that proves that a processed binary runs."""
