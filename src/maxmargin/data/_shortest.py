"""A double as the shortest decimal that reads back as the same number, in compiled code.

Giulietti, "The Schubfach way to render doubles", 2020. A double v = c 2^q stands for an interval of real numbers, those
that round to it. With 10^k at most the width of the interval < 10^(k+1), at most one multiple of 10^(k+1) lies inside,
and it is the shortest decimal if there is one; else it is the multiple of 10^k nearest to v. Both come from
v / 10^k and the same quotients of the interval's ends, each held in units of 1/4 and rounded to odd, so that every
comparison comes out as with real numbers.
Paper -> code: c, q, k, h, g (as high and low word), s, t = s + 1; v, v_l, v_r scaled -> middle, lower, upper.

A float32 is written with the digits that tell it from other float32 numbers.
"""

from __future__ import annotations

import numpy as np

from maxmargin._jit import compiled
from maxmargin.data._bits import leading_zeros, multiply_wide, put_byte
from maxmargin.data._floats import EXACT_MATH, LETTER_E, MINUS, POINT, TENS, ZERO, decimal_to_double, high_and_low

LONGEST_NUMBER = 24  # bytes, as in -1.2345678901234567e-300

_FIRST_K, _LAST_K = -324, 292  # for 5e-324 and for the largest double
_U0, _U1, _U2, _U10, _U52 = (np.uint64(n) for n in (0, 1, 2, 10, 52))
_FRACTION = np.uint64(2**52 - 1)
_HIDDEN_BIT = np.uint64(2**52)
_EXPONENT_BITS = np.uint64(0x7FF)
_ALL_BITS = np.uint64(2**64 - 1)
_HIDDEN_BIT_32 = np.uint64(2**23)
_LOWEST_Q_32 = -149  # 2^q of the smallest float32
_FEWER_BITS_32 = 29  # bits that a float32's significand lacks
_TENS_TO_STRIP = ((8, np.uint64(10**8)), (4, np.uint64(10**4)), (2, np.uint64(100)), (1, np.uint64(10)))


def _powers_of_ten() -> tuple[np.ndarray, np.ndarray]:
    """g(k) = floor(10^-k 2^r) + 1 with r such that it has 128 bits, as high and low words (section 9.3)."""
    powers = [(k, 10 ** abs(k), (10 ** abs(k)).bit_length()) for k in range(_FIRST_K, _LAST_K + 1)]
    return high_and_low([((p << 128) >> n if k <= 0 else (1 << (127 + n)) // p) + 1 for k, p, n in powers])


_G_HIGH, _G_LOW = _powers_of_ten()


@compiled(fastmath=EXACT_MATH)
def shortest_decimal(value, narrow):
    """The digits (uint64, the last not 0) and the exponent of ten of a finite number above 0; `narrow`: a float32."""
    bits = np.float64(value).view(np.uint64)
    biased = np.int64((bits >> _U52) & _EXPONENT_BITS)
    c = bits & _FRACTION
    q = (biased if biased > 0 else 1) - 1075
    if biased > 0:
        c = c | _HIDDEN_BIT
    closer = c == _HIDDEN_BIT and biased > 1  # below a power of two, numbers lie half as far apart
    if narrow:
        q_32 = max(q + _FEWER_BITS_32, _LOWEST_Q_32)
        c = c >> np.uint64(q_32 - q)
        q = q_32
        closer = c == _HIDDEN_BIT_32 and q > _LOWEST_Q_32
    digits, k = _schubfach(c, q, closer)
    for n_zeros, power in _TENS_TO_STRIP:
        while digits % power == 0:
            digits = digits // power
            k += n_zeros
    return digits, k


@compiled(fastmath=EXACT_MATH)
def _schubfach(c, q, closer):
    """Digits and exponent k of the shortest decimal in the rounding interval of c 2^q (figure 7)."""
    quarters = c << _U2
    # floor(log10(2^q)), and floor(log10(3/4 2^q)) where the interval is narrower below
    k = (q * 1262611 - (524031 if closer else 0)) >> 22
    h = np.uint64(q + ((-k * 1741647) >> 19) + 1)  # with floor(log2(10^-k))
    row = k - _FIRST_K
    g_high, g_low = _G_HIGH[row], _G_LOW[row]
    middle = _round_to_odd(g_high, g_low, quarters << h)
    lower = _round_to_odd(g_high, g_low, (quarters - (_U1 if closer else _U2)) << h)
    upper = _round_to_odd(g_high, g_low, (quarters + _U2) << h)
    open_ends = c & _U1  # the ends belong to the interval of an even c
    lower = lower + open_ends
    upper = upper - open_ends
    s = middle >> _U2
    if s >= _U10:
        tens = s // _U10 * _U10
        below_inside = lower <= tens << _U2
        above_inside = (tens + _U10) << _U2 <= upper
        if below_inside != above_inside:
            return (tens if below_inside else tens + _U10), k
    below_inside = lower <= s << _U2
    above_inside = (s + _U1) << _U2 <= upper
    if below_inside != above_inside:
        return (s if below_inside else s + _U1), k
    half_way = (s << _U2) + _U2
    if middle < half_way or (middle == half_way and s & _U1 == _U0):
        return s, k
    return s + _U1, k


@compiled(fastmath=EXACT_MATH)
def _round_to_odd(g_high, g_low, scaled):
    """g * scaled / 2^128, the last bit set if anything was cut off (figure 8)."""
    carry, _ = multiply_wide(g_low, scaled)
    high, low = multiply_wide(g_high, scaled)
    if low > _ALL_BITS - carry:
        high = high + _U1
        low = low - (_ALL_BITS - carry) - _U1
    else:
        low = low + carry
    return high | (_U1 if low > _U1 else _U0)


@compiled(fastmath=EXACT_MATH)
def put_number(p, value, narrow):
    """Write a finite number at address `p`; return the address behind it."""
    if value < 0 or (value == 0 and np.float64(value).view(np.uint64) != _U0):
        put_byte(p, MINUS)
        p += 1
        value = -value
    if value == 0:
        put_byte(p, ZERO)
        return p + 1
    digits, exponent = shortest_decimal(value, narrow)
    if narrow and np.float32(decimal_to_double(digits, exponent)) != np.float32(value):
        # Readers go through float64 and round twice. Where that matters (7.038531e-26), all digits are written.
        digits, exponent = shortest_decimal(value, False)
    return _put_decimal(p, digits, exponent)


@compiled(fastmath=EXACT_MATH)
def _put_decimal(p, digits, exponent):
    """Write ``digits * 10^exponent``, with an exponent where ``repr`` has one."""
    n_digits = _count_digits(digits)
    n_whole = n_digits + exponent  # digits before the point
    if -3 <= n_whole <= 16:
        if n_whole <= 0:
            p = _put_zeros(p, 1)
            put_byte(p, POINT)
            p = _put_zeros(p + 1, -n_whole)
            return _put_digits(p, digits, n_digits, n_digits)
        p = _put_digits(p, digits, n_digits, n_whole)
        return _put_zeros(p, exponent)
    p = _put_digits(p, digits, n_digits, 1)
    put_byte(p, LETTER_E)
    return put_integer(p + 1, n_whole - 1)


@compiled(fastmath=EXACT_MATH)
def put_integer(p, number):
    """Write an int64 at address `p`; return the address behind it."""
    digits = np.uint64(max(number, 0))
    if number < 0:
        put_byte(p, MINUS)
        p += 1
        digits = np.uint64(-(number + 1)) + _U1  # the smallest int64 has no negative
    n_digits = _count_digits(digits)
    return _put_digits(p, digits, n_digits, n_digits)


@compiled(fastmath=EXACT_MATH)
def _count_digits(number):
    """Number of decimal digits of a uint64 below 10^19; 1 for zero."""
    guess = ((64 - leading_zeros(number)) * 1233) >> 12  # bits times log10(2): right or one too small
    return guess + (1 if number >= TENS[guess] or guess == 0 else 0)


@compiled(fastmath=EXACT_MATH)
def _put_digits(p, digits, n_digits, n_whole):
    """Write `n_digits` digits, a point behind the first `n_whole` of them if more follow."""
    end = p + n_digits
    if n_whole < n_digits:
        for place in range(end, p + n_whole, -1):
            put_byte(place, ZERO + np.int64(digits % _U10))
            digits = digits // _U10
        put_byte(p + n_whole, POINT)
        end += 1
        n_digits = n_whole
    for place in range(p + n_digits - 1, p - 1, -1):
        put_byte(place, ZERO + np.int64(digits % _U10))
        digits = digits // _U10
    return end


@compiled(fastmath=EXACT_MATH)
def _put_zeros(p, n_zeros):
    for place in range(p, p + n_zeros):
        put_byte(place, ZERO)
    return p + max(n_zeros, 0)
