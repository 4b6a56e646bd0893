"""Settings of all tests: hypothesis draws the same examples in every run, and a slow machine is no failure."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=50, database=None)
settings.load_profile("repeatable")
