"""Support vector machines for large data."""
