"""The functions of the library: ``import prologue`` finds each by its name when it is first used."""
