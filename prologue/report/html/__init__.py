"""Reports as one HTML file that loads nothing else."""
