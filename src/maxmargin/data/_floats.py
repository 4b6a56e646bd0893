"""Decimal text to the nearest double, in compiled code: bit for bit what ``float(token)`` gives.

Three ways, the first that applies:

1. Clinger, "How to read floating point numbers accurately", 1990: a mantissa up to 2^53 times, or over, a power of
   ten up to 10^22 is one exactly rounded operation.
2. Eisel-Lemire (Lemire, "Number parsing at a gigabyte per second", 2021): the mantissa, up to 19 digits, times a
   128-bit approximation of the power of ten; the leading bits of the product decide the rounding.
3. What these leave is `NOT_PLAIN`, for Python to read or to refuse: text that is no number, numbers outside the range
   of normal doubles, and of the numbers with more than 19 digits those whose tail decides the rounding.

No fast-math here: a division turned into a multiplication by the reciprocal would be off by one bit.
"""

from __future__ import annotations

import ctypes

import numpy as np

from maxmargin._jit import JIT_DISABLED, compiled
from maxmargin.data._bits import byte_at, leading_zeros, multiply_wide, trailing_zeros, word_at

EXACT_MATH: frozenset[str] = frozenset()
NOT_PLAIN = -1  # in place of the address where a number ends

PLUS, MINUS, POINT, ZERO, HASH, LETTER_E = (ord(c) for c in "+-.0#e")

_SMALLEST_POWER, _LARGEST_POWER = -342, 308  # beyond these, 10^q times any 64-bit mantissa is zero or infinite
_MOST_DIGITS = 19  # always fit into a uint64
_EXPONENT_CAP = 100_000  # beyond it, larger exponents make no difference

TENS = np.array([10**n for n in range(_MOST_DIGITS + 1)], dtype=np.uint64)
ROOM = np.array([10 ** (_MOST_DIGITS - n) for n in range(9)], dtype=np.uint64)  # a mantissa below takes n more digits
_EXACT_TENS = np.array([10.0**n for n in range(23)])
_EXACT_MANTISSA = np.uint64(2**53)

_U1, _U3, _U8, _U9, _U10, _U16, _U32, _U52, _U63 = (np.uint64(n) for n in (1, 3, 8, 9, 10, 16, 32, 52, 63))
_NINE_BITS = np.uint64(0x1FF)
_ALL_BITS = np.uint64(2**64 - 1)
_HIDDEN_BIT = np.uint64(2**52)


# ---------------------------------------------------------------- from mantissa and exponent


def _powers_of_five() -> tuple[np.ndarray, np.ndarray]:
    """The leading 128 bits of 5^q for every q, as high and low words (Lemire 2021, section 5).

    Rounded down, except where 5^-q may divide a 64-bit mantissa without remainder (-27 <= q < 0): there up, so that
    the exact quotient does not look slightly too small.
    """
    leading = []
    for q in range(_SMALLEST_POWER, _LARGEST_POWER + 1):
        power = 5 ** abs(q)
        n_bits = power.bit_length()
        leading.append((power << 128) >> n_bits if q >= 0 else (1 << (n_bits + 127)) // power + (q >= -27))
    return high_and_low(leading)


def high_and_low(numbers: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of 128 bits as two words each."""
    high, low = [number >> 64 for number in numbers], [number & (2**64 - 1) for number in numbers]
    return np.array(high, dtype=np.uint64), np.array(low, dtype=np.uint64)


_FIVES_HIGH, _FIVES_LOW = _powers_of_five()


@compiled(fastmath=EXACT_MATH)
def decimal_to_double(mantissa, exponent):
    """The double nearest to ``mantissa * 10^exponent`` (uint64, int64), or NaN where Python must decide."""
    if -22 <= exponent <= 22 and mantissa <= _EXACT_MANTISSA:
        if exponent < 0:
            return np.float64(mantissa) / _EXACT_TENS[-exponent]
        return np.float64(mantissa) * _EXACT_TENS[exponent]
    if mantissa == 0:
        return 0.0
    if exponent < _SMALLEST_POWER or exponent > _LARGEST_POWER:
        return np.nan
    return _eisel_lemire(mantissa, exponent)


@compiled(fastmath=EXACT_MATH)
def _eisel_lemire(mantissa, q):
    """``mantissa * 10^q`` if it is a normal double, NaN if not or if 128 bits cannot tell."""
    shift = leading_zeros(mantissa)
    w = mantissa << np.uint64(shift)
    row = q - _SMALLEST_POWER
    high, low = multiply_wide(w, _FIVES_HIGH[row])
    if high & _NINE_BITS == _NINE_BITS:
        # The bits to be rounded away are all ones: the next 64 bits of the power may carry into them.
        carry, _ = multiply_wide(w, _FIVES_LOW[row])
        if low > _ALL_BITS - carry:
            low = low - (_ALL_BITS - carry) - _U1
            high = high + _U1
        else:
            low = low + carry
        if low == _ALL_BITS and not -27 <= q <= 55:
            return np.nan
    # 54 bits: the hidden bit, 52 of the fraction, one to round by. The product's top bit may be 0.
    top = high >> _U63
    significand = high >> (top + _U9)
    # floor(q log2(10)) is (217706 q) >> 16 for all these q; 1023 is the bias of a double's exponent.
    biased = ((217706 * q) >> 16) + 63 + np.int64(top) - shift + 1023
    # Exactly half way between two doubles, which only these q allow, and the lower one is even: take that.
    if low <= _U1 and -4 <= q <= 23 and significand & _U3 == _U1 and significand << (top + _U9) == high:
        significand = significand - _U1
    significand = (significand + (significand & _U1)) >> _U1
    if significand >= _HIDDEN_BIT << _U1:
        significand = _HIDDEN_BIT
        biased += 1
    if biased < 1 or biased > 2046:
        return np.nan
    bits = (significand - _HIDDEN_BIT) | (np.uint64(biased) << _U52)
    return np.uint64(bits).view(np.float64)


# ---------------------------------------------------------------- from text


def _read_digits_python(start):
    """The value of the decimal digits at `start`, at most eight of them, and how many they are."""
    text = ctypes.string_at(int(start), 8)
    n_digits = 8 - len(text.lstrip(b"0123456789"))
    return np.uint64(int(text[:n_digits] or b"0")), n_digits


_EIGHT_ZEROS = np.uint64(0x3030303030303030)
_NINE_TO_TOP = np.uint64(0x7676767676767676)  # added to a byte above 9, sets its top bit
_TOP_BITS = np.uint64(0x8080808080808080)
_PAIRS = np.uint64(0x000000FF000000FF)
_ODD_PAIRS = np.uint64(100 + (1_000_000 << 32))
_EVEN_PAIRS = np.uint64(1 + (10_000 << 32))


@compiled(fastmath=EXACT_MATH)
def _read_digits_word(start):
    """`_read_digits_python` on eight bytes at once: no branch for the processor to mispredict."""
    word = word_at(start) ^ _EIGHT_ZEROS
    others = ((word + _NINE_TO_TOP) | word) & _TOP_BITS  # right up to the first byte that is no digit
    bits = trailing_zeros(others) & -8  # eight times the number of digits
    if bits == 0:
        return np.uint64(0), 0
    digits = word << np.uint64(64 - bits)  # one digit a byte, with leading zeros
    pairs = digits * _U10 + (digits >> _U8)  # every second byte holds two digits
    value = ((pairs & _PAIRS) * _ODD_PAIRS + ((pairs >> _U16) & _PAIRS) * _EVEN_PAIRS) >> _U32
    return value, bits >> 3


read_digits = _read_digits_python if JIT_DISABLED else _read_digits_word


@compiled(fastmath=EXACT_MATH)
def read_number(start):
    """The number at `start` and the address behind it, or `NOT_PLAIN` in place of the address.

    This one knows the usual shapes, such as ``-1``, ``253`` and ``0.0123``; `_read_any_number` knows all.
    """
    sign = byte_at(start)
    first = start + 1 if sign in (MINUS, PLUS) else start
    digit = byte_at(first) - ZERO
    if not 0 <= digit <= 9:
        return _read_any_number(start)
    # Most numbers have one digit before the point. Guessing so is faster than computing how many there are.
    mantissa = np.uint64(digit)
    p = first + 1
    byte = byte_at(p)
    if 0 <= byte - ZERO <= 9:
        mantissa, n_digits = read_digits(first)
        p = first + n_digits
        byte = byte_at(p)
    exponent = 0
    if byte == POINT:
        p += 1
        point = p
        n_digits = 8
        while n_digits == 8:
            more, n_digits = read_digits(p)
            if mantissa >= ROOM[n_digits]:
                return _read_any_number(start)
            mantissa = mantissa * TENS[n_digits] + more
            p += n_digits
        exponent = point - p
        byte = byte_at(p)
    if byte > HASH:
        return _read_any_number(start)  # an exponent, more than eight digits before the point, or nonsense
    if mantissa <= _EXACT_MANTISSA and exponent >= -22:
        value = np.float64(mantissa) / _EXACT_TENS[-exponent]
    else:
        value = decimal_to_double(mantissa, exponent)
        if value != value:
            return 0.0, NOT_PLAIN
    return (-value if sign == MINUS else value), p


@compiled(fastmath=EXACT_MATH)
def _read_any_number(start):
    """`read_number` byte by byte: any number of digits, a point anywhere, an exponent."""
    is_negative, first = _behind_sign(start)
    p = first
    mantissa = np.uint64(0)
    exponent = 0
    n_kept = 0  # digits in the mantissa, without leading zeros
    n_points = 0
    cut = False  # are there digits other than 0 that the mantissa does not hold?
    while True:
        byte = byte_at(p)
        digit = byte - ZERO
        if 0 <= digit <= 9:
            if n_kept < _MOST_DIGITS:
                mantissa = mantissa * _U10 + np.uint64(digit)
                n_kept += 1 if mantissa > 0 else 0
                exponent -= n_points
            else:
                cut = cut or digit > 0
                exponent += 1 - n_points
        elif byte == POINT and n_points == 0:
            n_points = 1
        else:
            break
        p += 1
    if p - first == n_points:
        return 0.0, NOT_PLAIN  # not one digit
    if byte_at(p) | 32 == LETTER_E:
        power, p = _read_exponent(p + 1)
        exponent += power
    value = decimal_to_double(mantissa, exponent)
    if value != value or (cut and decimal_to_double(mantissa + _U1, exponent) != value):
        return 0.0, NOT_PLAIN
    return (-value if is_negative else value), p


@compiled(fastmath=EXACT_MATH)
def _behind_sign(start):
    """Whether there is a minus at `start`, and the address behind it or behind a plus."""
    sign = byte_at(start)
    return sign == MINUS, start + 1 if sign in (MINUS, PLUS) else start


@compiled(fastmath=EXACT_MATH)
def _read_exponent(start):
    """The exponent at `start`, behind the ``e``, and the address behind it or `NOT_PLAIN`."""
    is_negative, first = _behind_sign(start)
    p = first
    exponent = 0
    digit = byte_at(p) - ZERO
    while 0 <= digit <= 9:
        if exponent < _EXPONENT_CAP:
            exponent = exponent * 10 + digit
        p += 1
        digit = byte_at(p) - ZERO
    if p == first:
        return 0, NOT_PLAIN
    return (-exponent if is_negative else exponent), p
