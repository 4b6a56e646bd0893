"""Choosing C: paths of solutions and their plots."""
