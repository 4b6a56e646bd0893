"""The papers, measured: every table and figure by ``python -m papers``, see README.md."""
