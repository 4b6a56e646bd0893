"""``python -m maxmargin``: the command line."""

from maxmargin.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
