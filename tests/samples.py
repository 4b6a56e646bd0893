"""Small data sets with what real ones have: zeros, empty and repeated rows, noise."""

import numpy as np
import scipy.sparse as sp

from maxmargin import losses


def sample(loss, n_rows=30, n_features=5, seed=0):
    """A dense X and labels, or targets, that fit the loss; row 3 is empty, row 5 repeats row 4."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    X[rng.random(X.shape) < 0.3] = 0.0
    if n_rows > 5:
        X[3] = 0.0
        X[5] = X[4]
    z = X @ rng.normal(size=n_features) + rng.normal(size=n_rows)
    return X, np.where(z > 0.0, 1.0, -1.0) if losses.is_margin_loss(losses.get(loss)) else z


def csr(X, index=np.int32, dtype=np.float64):
    """X as a CSR matrix with this type of indices."""
    matrix = sp.csr_array(X.astype(dtype))
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    return matrix


def memmap(X, path):
    """X in a file, mapped read-only."""
    X.tofile(path)
    return np.memmap(path, dtype=X.dtype, mode="r", shape=X.shape)


def csr_memmap(X, path):
    """A CSR matrix whose three arrays are mapped read-only from files."""
    matrix = csr(X)
    arrays = [memmap(getattr(matrix, name), f"{path}.{name}") for name in ("data", "indices", "indptr")]
    mapped = sp.csr_array(tuple(arrays), shape=X.shape)
    mapped.data, mapped.indices, mapped.indptr = arrays
    return mapped


def liblinear_weights(X, y, options, objective, bias=-1.0):
    """LIBLINEAR's weights for the label 1 or the target, intercept last if there is one.

    It visits rows in the order of C's rand() and ends after some hundred passes wherever it is then, in one order of
    twenty far from its optimum. The answer is the best of several, by `objective(weights)`.
    """
    from liblinear.liblinearutil import parameter, problem, train

    rows = problem(y.tolist(), [dict(enumerate(row, start=1)) for row in X.tolist()])
    answers = []
    for _ in range(6):
        model = train(rows, parameter(f"{options} -B {bias} -q"))
        w = [model.get_decfun_coef(j) for j in range(1, X.shape[1] + 1)]
        w = np.array([*w, bias * model.get_decfun_bias()] if bias >= 0.0 else w)
        answers.append(-w if not model.is_regression_model() and model.get_labels()[0] == -1 else w)
    return min(answers, key=objective)
