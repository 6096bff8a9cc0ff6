"""Finds patch sites: records, sites, generations, contracts."""
