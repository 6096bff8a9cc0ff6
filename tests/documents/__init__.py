"""Types of the JSON documents, of which docs/schemas is made; what tests make is checked against these, strictly."""
