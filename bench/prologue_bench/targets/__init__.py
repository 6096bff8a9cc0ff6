"""Machines that boot what they are given and say what they measured."""
