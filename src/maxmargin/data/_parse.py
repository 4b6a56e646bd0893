"""The compiled parser of svmlight text: whole lines from memory straight into the arrays of a CSR matrix.

It knows ordinary rows only, and stops before the first that is not (a number with an underscore, an index out of
order, nonsense), which `maxmargin.data._line` then reads or refuses. Positions are addresses; see
`maxmargin.data._bits`. The last byte of the text is a newline, and a word's length behind it can be read.
"""

from __future__ import annotations

import numpy as np

from maxmargin._jit import compiled
from maxmargin.data._bits import byte_at, word_at
from maxmargin.data._floats import EXACT_MATH, HASH, MINUS, NOT_PLAIN, ROOM, TENS, read_digits, read_number

TAB, NEWLINE, RETURN, SPACE, COLON = (ord(c) for c in "\t\n\r :")
_QID = np.uint64(int.from_bytes(b"qid:", "little"))
_FOUR_BYTES = np.uint64(0xFFFFFFFF)
_SPARE_DIGIT = np.uint64(10)
_BLOCK = 128  # bytes counted in a uint8


@compiled
def count_lines_and_colons(text):
    """Upper bounds of what `parse_rows` will find: newlines end rows, every feature has a colon."""
    n_lines = 0
    n_colons = 0
    begin = 0
    while begin < len(text):
        end = min(begin + _BLOCK, len(text))
        lines = np.uint8(0)  # narrow sums, so that a vector register holds as many as it does bytes
        colons = np.uint8(0)
        for i in range(np.uint64(begin), np.uint64(end)):
            lines = np.uint8(lines + np.uint8(text[i] == NEWLINE))
            colons = np.uint8(colons + np.uint8(text[i] == COLON))
        n_lines += int(lines)
        n_colons += int(colons)
        begin = end
    return n_lines, n_colons


@compiled(fastmath=EXACT_MATH)
def parse_rows(begin, end, limits, target):
    """Parse the lines between two addresses up to the first that is not ordinary.

    Returns the address of that line (`end` if there is none), the number of rows and of values stored, and the
    smallest and largest index among them (as in the text; `limits.highest` and -1 if there are none).
    """
    labels, queries, row_sizes, indices, values = target
    n_rows = 0
    n_values = 0
    smallest = limits.highest
    largest = -1
    line = begin
    while line < end:
        p = _skip_blanks(line)
        byte = byte_at(p)
        if byte not in (NEWLINE, HASH):
            label, p = read_number(p)
            if p == NOT_PLAIN or not _ends_token(byte_at(p)):
                break
            p = _skip_blanks(p)
            query, p = _read_query(p, limits.with_queries)
            if p == NOT_PLAIN:
                break
            first = n_values
            previous = limits.lowest - 1
            while True:
                byte = byte_at(p)
                if byte == SPACE:  # one space is the rule
                    p += 1
                    byte = byte_at(p)
                if byte <= SPACE or byte == HASH:
                    p = _skip_blanks(p)
                    byte = byte_at(p)
                    if byte in (NEWLINE, HASH):
                        break
                index, p = _read_index(p)
                if p == NOT_PLAIN or byte_at(p) != COLON or index <= previous or index > limits.highest:
                    p = NOT_PLAIN
                    break
                value, p = read_number(p + 1)
                if p == NOT_PLAIN or not _ends_token(byte_at(p)) or not abs(value) <= limits.largest:
                    p = NOT_PLAIN
                    break
                indices[np.uint64(n_values)] = index - limits.shift
                values[np.uint64(n_values)] = value
                n_values += 1
                previous = index
            if p == NOT_PLAIN:
                n_values = first
                break
            if n_values > first:
                smallest = min(smallest, indices[first] + limits.shift)
                largest = max(largest, previous)
            labels[n_rows] = label
            row_sizes[n_rows] = n_values - first
            if limits.with_queries:
                queries[n_rows] = query
            n_rows += 1
        while byte_at(p) != NEWLINE:  # a comment
            p += 1
        line = p + 1
    return line, n_rows, n_values, smallest, largest


@compiled(fastmath=EXACT_MATH)
def _skip_blanks(p):
    """The address of the first byte that is not a blank; a newline is none."""
    byte = byte_at(p)
    while byte == SPACE or (TAB <= byte <= RETURN and byte != NEWLINE):
        p += 1
        byte = byte_at(p)
    return p


@compiled(fastmath=EXACT_MATH)
def _ends_token(byte):
    return byte in (SPACE, HASH) or TAB <= byte <= RETURN


@compiled(fastmath=EXACT_MATH)
def _read_query(p, required):
    """The query id at `p` (0 if there is none) and the address behind it, or `NOT_PLAIN`."""
    if word_at(p) & _FOUR_BYTES != _QID:
        return 0, (NOT_PLAIN if required else p)
    negative = byte_at(p + 4) == MINUS
    query, p = _read_index(p + 5 if negative else p + 4)
    if p != NOT_PLAIN and not _ends_token(byte_at(p)):
        p = NOT_PLAIN
    return (-query if negative else query), p


@compiled(fastmath=EXACT_MATH)
def _read_index(start):
    """The digits at `start` as an int64 and the address behind them, or `NOT_PLAIN`: none, or more than 18."""
    index, n_digits = read_digits(start)
    p = start + n_digits
    if n_digits == 0:
        return 0, NOT_PLAIN
    while n_digits == 8:
        more, n_digits = read_digits(p)
        if index >= ROOM[n_digits] // _SPARE_DIGIT:
            return 0, NOT_PLAIN
        index = index * TENS[n_digits] + more
        p += n_digits
    return np.int64(index), p
