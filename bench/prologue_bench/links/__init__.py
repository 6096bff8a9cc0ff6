"""Many links of one build: other orders and alignments of its text, and the record of each link."""
