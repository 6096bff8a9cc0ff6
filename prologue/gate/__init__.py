"""The release gate: settings, known findings, what fails when."""
