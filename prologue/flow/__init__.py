"""Analyses code: where control goes, which addresses are formed, which registers are live, how frames are unwound."""
