"""The expected effect of the words at patch sites, by models of cores and code that ran; a campaign that decides it."""
