"""The budget paper's tables, read as its text says."""


def bilinear(table, m, kappa):
    """A weighted mean of the four grid points around."""
    n = len(table) - 1
    i, j = min(int(m * n), n - 1), min(int(kappa * n), n - 1)
    u, v = m * n - i, kappa * n - j
    return (
        (1 - u) * (1 - v) * table[i][j]
        + (1 - u) * v * table[i][j + 1]
        + u * (1 - v) * table[i + 1][j]
        + u * v * table[i + 1][j + 1]
    )


def nearest(table, m, kappa):
    """The nearest grid point."""
    n = len(table) - 1
    return table[round(m * n)][round(kappa * n)]
