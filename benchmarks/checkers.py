"""Is a core vector machine erratic in C? Time, gap and accuracy on a checkers board (Loosli, Canu 2007).

python -m benchmarks.checkers
"""

from __future__ import annotations

import time
import warnings

import numpy as np

from maxmargin import SVC


def board(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points on a board of 4 x 4 squares, and the colours of their squares."""
    X = rng.uniform(0.0, 4.0, (n, 2))
    return X, np.where(np.floor(X).sum(axis=1) % 2 == 0, 1, -1)


def main(n_rows: int = 4000, max_time: float = 15.0) -> None:
    """Print a line for each solver and C."""
    rng = np.random.default_rng(0)
    (X, y), (X_test, y_test) = board(n_rows, rng), board(10_000, rng)
    for solver in ("cvm", "bvm"):
        for C in 10.0 ** np.arange(-1, 6):
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = SVC(C=C, gamma=4.0, solver=solver, tol=1e-2, max_time=max_time).fit(X, y)
            seconds = time.process_time() - began
            gap, right = model.certificate_.relative_gap, 100.0 * model.score(X_test, y_test)
            print(
                f"{solver} C={C:<8g} {seconds:6.2f} s  gap {gap:.1e}  {len(model.support_):5d} vectors  {right:.2f} %"
            )


if __name__ == "__main__":
    main()
