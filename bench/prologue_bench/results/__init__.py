"""Result sets: what a campaign was and what each boot gave, in memory and on disk."""
