"""The reduced problem of cutting-plane methods, solved exactly: an active-set method on its dual.

    min_w  1/2 |w|^2 + max_k (a_k'w + b_k)    =    max_alpha  b'alpha - 1/2 alpha'H alpha,      H_jk = a_j'a_k,
                                                   alpha >= 0,   sum_k alpha_k = 1,             w = -sum_k alpha_k a_k

One variable a plane. (With a plane a = 0, b = 0 among them, the sum over the others is at most one.)

The planes of the working set W have a positive alpha. Its problem, without the bounds, is a linear system: the
gradient g = b - H alpha must be the same for all planes of W. A step towards its solution, from where alpha is, reads

    (H_WW + shift 11') delta = g_W - nu 1,      sum delta = 0.

It is cut short where an alpha gets to zero, and that plane leaves W. When a whole step has been made, the plane with
the largest gradient enters W, if it exceeds that of W; if none does, alpha is optimal. Every step gains, so no working
set comes twice, and from one reduced problem to the next, which has one plane more, few planes enter or leave.

The system's Cholesky factor follows W: O(|W|^2) for each plane that enters or leaves. `shift` makes the matrix positive
definite as long as the planes of W are affinely independent. A plane that depends on the others (there can be more
planes than features) gets a diagonal that is slightly larger: the step is then so long that another plane leaves.

Franc and Sonnenburg solve this problem by SMO with second-order choice of pairs (Fan, Chen and Lin 2005). Planes become
alike near the optimum, and pairs then undo each other's work: for the reduced problems of OCAS on 40,000 dense rows of
54 features SMO took 50 times as long to reach an accuracy of 1e-8 (of the objective), where this method is exact.
"""

from __future__ import annotations

import numpy as np

from maxmargin._jit import compiled

# Sums must not be reordered here (no `DENSE_MATH`): a kernel within a kernel is then vectorised one way by the process
# that compiles it and another way by those that load it from the cache, and a working set can hang on the last bit.

_DEPENDENT = 1e-13  # of a diagonal entry: what is left of it when a plane depends on others
_ROUNDING = 4.0 * 2.0**-52  # relative to the numbers that a gradient is summed of
_REFINEMENTS = 3  # whole steps on one working set: the second is below rounding, or nearly so


@compiled
def solve_reduced(gram, b, n, alpha, order, factor, n_working, shift):
    """Improve alpha until it is optimal, or nothing but rounding is left.

    Parameters
    ----------
    gram, b : arrays
        H and b, of which the first n rows and columns count.
    alpha : ndarray
        Feasible to begin with; changed in place.
    order, factor, n_working : ndarray, ndarray, int
        The working set in the order of its Cholesky factor; changed in place.
    shift : float

    Returns
    -------
    n_working, n_steps : int
    """
    gradient, noise, delta, ones = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    is_working = np.zeros(n, dtype=np.bool_)
    for i in range(n_working):
        is_working[order[i]] = True
    n_whole = 0
    n_steps = 0
    while n_steps < 20 * (n + 10):
        n_steps += 1
        _gradient(gram, b, alpha, order, n_working, gradient, noise)
        level = 0.0
        for i in range(n_working):
            level += alpha[order[i]] * gradient[order[i]]
        entering = -1
        if n_whole >= _REFINEMENTS or _is_level(gradient, noise, level, order, n_working):
            entering = _largest(gradient, noise, level, is_working)
            if entering < 0:
                break
            _append(gram, order, factor, n_working, entering, shift)
            is_working[entering] = True
            n_working += 1
            n_whole = 0
        _direction(factor, order, n_working, gradient, delta, ones)
        length, first = _longest(alpha, order, n_working, delta)
        for i in range(n_working):
            alpha[order[i]] += length * delta[i]
        if first < 0:
            n_whole += 1
            continue
        leaving = order[first]
        alpha[leaving] = 0.0
        is_working[leaving] = False
        _remove(order, factor, n_working, first)
        n_working -= 1
        n_whole = 0
        if leaving == entering:  # the gain was less than rounding
            break
    total = 0.0
    for i in range(n_working):
        total += alpha[order[i]]
    for i in range(n_working):
        alpha[order[i]] /= total
    return n_working, n_steps


@compiled
def _gradient(gram, b, alpha, order, n_working, gradient, noise):
    """b - H alpha, and how exact it can be."""
    for k in range(len(gradient)):
        total, size = 0.0, abs(b[k])
        for i in range(n_working):
            term = gram[k, order[i]] * alpha[order[i]]
            total += term
            size += abs(term)
        gradient[k] = b[k] - total
        noise[k] = _ROUNDING * size


@compiled
def _is_level(gradient, noise, level, order, n_working):
    """Whether the gradient is the same for all planes of the working set."""
    is_level = True
    for i in range(n_working):
        is_level &= abs(gradient[order[i]] - level) <= noise[order[i]]
    return is_level


@compiled
def _largest(gradient, noise, level, is_working):
    """The plane outside the working set by which there is most to gain, -1 if there is none."""
    best, largest = -1, 0.0
    for k in range(len(gradient)):
        gain = gradient[k] - level
        if not is_working[k] and gain > noise[k] and gain > largest:
            best, largest = k, gain
    return best


@compiled
def _longest(alpha, order, n_working, delta):
    """How long a step along delta may be, at most one, and the place in the working set of what stops it, or -1."""
    length, first = 1.0, -1
    for i in range(n_working):
        if alpha[order[i]] + length * delta[i] <= 0.0 and delta[i] < 0.0:
            length, first = -alpha[order[i]] / delta[i], i
    return length, first


@compiled
def _append(gram, order, factor, n_working, k, shift):
    """Let plane k enter the working set."""
    line = factor[n_working]
    diagonal = gram[k, k] + shift
    rest = diagonal
    for i in range(n_working):
        total = gram[k, order[i]] + shift
        for j in range(i):
            total -= factor[i, j] * line[j]
        line[i] = total / factor[i, i]
        rest -= line[i] * line[i]
    line[n_working] = np.sqrt(max(rest, _DEPENDENT * diagonal))
    order[n_working] = k


@compiled
def _remove(order, factor, n_working, place):
    """Let the plane at this place of the working set leave it; rotations make the factor triangular again."""
    last = n_working - 1
    for r in range(place, last):
        order[r] = order[r + 1]
        for c in range(r + 2):
            factor[r, c] = factor[r + 1, c]
    for c in range(place, last):
        x, y = factor[c, c], factor[c, c + 1]
        length = np.sqrt(x * x + y * y)
        cosine, sine = x / length, y / length
        factor[c, c] = length
        for r in range(c + 1, last):
            x, y = factor[r, c], factor[r, c + 1]
            factor[r, c] = cosine * x + sine * y
            factor[r, c + 1] = cosine * y - sine * x


@compiled
def _direction(factor, order, n_working, gradient, delta, ones):
    """The step to the solution of the working set's system: the part of M^-1 g whose sum is zero."""
    for i in range(n_working):  # both right sides at once
        x, y = gradient[order[i]], 1.0
        for j in range(i):
            x -= factor[i, j] * delta[j]
            y -= factor[i, j] * ones[j]
        delta[i], ones[i] = x / factor[i, i], y / factor[i, i]
    for i in range(n_working - 1, -1, -1):
        delta[i] /= factor[i, i]
        ones[i] /= factor[i, i]
        for j in range(i):
            delta[j] -= factor[i, j] * delta[i]
            ones[j] -= factor[i, j] * ones[i]
    sum_delta, sum_ones = 0.0, 0.0
    for i in range(n_working):
        sum_delta += delta[i]
        sum_ones += ones[i]
    for i in range(n_working):
        delta[i] -= sum_delta / sum_ones * ones[i]
