"""Writes to kernel text: recorders, recordings and their files, the writers, and the judge of live writes."""
