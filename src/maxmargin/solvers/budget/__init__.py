"""Kernel SGD on a budget: the passes, the merging of support vectors, the refit."""
