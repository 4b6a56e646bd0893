"""Pages are tests: every block of Python on them runs."""

collect_ignore = ["conf.py"]
