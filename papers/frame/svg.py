"""Plots as SVG text: lines over linear or logarithmic axes, stacked bars, and maps of a function of two numbers.

Colours are the report's CSS variables (``--c0`` ... ``--c7``, ``--ink``, ``--grid``), so that one picture serves light
and dark pages and paper.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_WIDTH, _HEIGHT = 460, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 30, 46
_MARKS = ("circle", "square", "triangle", "diamond")


class Series(NamedTuple):
    """A line with its name; points whose numbers are None are left out."""

    name: str
    points: Sequence[tuple[float | None, float | None]]
    dashed: bool = False
    marks: bool = True


class Axis(NamedTuple):
    """What it shows, and whether by its logarithm."""

    label: str
    log: bool = False


def lines(title: str, x: Axis, y: Axis, series: Sequence[Series], level: float | None = None) -> str:
    """A plot of lines; `level` draws a dotted line across, as the papers do for their accuracy."""
    shown = [(s, [p for p in s.points if _is_shown(p, x, y)]) for s in series]
    shown = [(s, points) for s, points in shown if points]
    if not shown:
        return _frame(title, '<text class="t" x="230" y="160" text-anchor="middle">nothing measured</text>', [])
    values = [p for _, points in shown for p in points]
    x = x._replace(log=x.log and _spans_a_decade([p[0] for p in values]))
    y = y._replace(log=y.log and _spans_a_decade([p[1] for p in values]))
    x_scale = _Scale([p[0] for p in values], x.log, _LEFT, _WIDTH - _RIGHT)
    levels = [level] if level is not None else []
    y_scale = _Scale([p[1] for p in values] + levels, y.log, _HEIGHT - _BOTTOM, _TOP)
    parts = [_axes(x, y, x_scale, y_scale)]
    if level is not None:
        at = y_scale(level)
        parts.append(f'<path class="level" d="M{_LEFT} {at:.1f}H{_WIDTH - _RIGHT}"/>')
    for number, (s, points) in enumerate(shown):
        path = "L".join(f"{x_scale(px):.1f} {y_scale(py):.1f}" for px, py in points)
        dash = ' stroke-dasharray="5 4"' if s.dashed else ""
        parts.append(f'<path class="line s{number % 8}" d="M{path}"{dash}><title>{html.escape(s.name)}</title></path>')
        if s.marks and len(points) <= 40:
            parts += [_mark(number, x_scale(px), y_scale(py)) for px, py in points]
    return _frame(title, "".join(parts), [s.name for s, _ in shown])


def bars(title: str, label: str, groups: Sequence[str], parts: dict[str, Sequence[float]]) -> str:
    """Stacked horizontal bars: one bar a group, one colour a part."""
    left, height = 150, 24
    totals = [sum(values) for values in zip(*parts.values())]
    scale = _Scale([0.0, *totals], False, left, _WIDTH - _RIGHT)
    pictures, bottom = [], _TOP + height * len(groups)
    for tick in scale.ticks():
        at = scale(tick)
        pictures.append(
            f'<path class="grid" d="M{at:.1f} {_TOP}V{bottom}"/>'
            f'<text class="t" x="{at:.1f}" y="{bottom + 15}" text-anchor="middle">{_tick(tick)}</text>'
        )
    for row, group in enumerate(groups):
        y = _TOP + height * row + 4
        pictures.append(f'<text class="t" x="{left - 6}" y="{y + 12}" text-anchor="end">{html.escape(group)}</text>')
        begin = 0.0
        for number, (name, values) in enumerate(parts.items()):
            x0, x1 = scale(begin), scale(begin + values[row])
            pictures.append(
                f'<rect class="bar f{number % 8}" x="{x0:.1f}" y="{y}" width="{max(0.0, x1 - x0):.1f}" '
                f'height="{height - 8}"><title>{html.escape(f"{group}: {name} {values[row]:.3g}")}</title></rect>'
            )
            begin += values[row]
    middle = (left + _WIDTH - _RIGHT) / 2
    pictures.append(
        f'<text class="t" x="{middle:.0f}" y="{bottom + 32}" text-anchor="middle">{html.escape(label)}</text>'
    )
    return _frame(title, "".join(pictures), list(parts), bottom + 40)


def surface(title: str, x: str, y: str, values: np.ndarray, log: bool = False, lowest: float = 1e-6) -> str:
    """A map of values[j, i] at (i, j) of a grid over the unit square, y upwards, with a scale of colours."""
    shown = np.log10(np.maximum(values, lowest)) if log else values
    low, high = float(shown.min()), float(shown.max())
    n_y, n_x = shown.shape
    side = _HEIGHT - _TOP - _BOTTOM
    cells = []
    for j in range(n_y):
        for i in range(n_x):
            share = (shown[j, i] - low) / (high - low or 1.0)
            cells.append(
                f'<rect x="{_LEFT + side * i / n_x:.1f}" y="{_TOP + side * (n_y - 1 - j) / n_y:.1f}" '
                f'width="{side / n_x + 0.4:.1f}" height="{side / n_y + 0.4:.1f}" fill="{_colour(share)}"/>'
            )
    bar = _LEFT + side + 24
    for k in range(40):
        cells.append(
            f'<rect x="{bar}" y="{_TOP + side * (39 - k) / 40:.1f}" width="16" height="{side / 40 + 0.4:.1f}" '
            f'fill="{_colour((k + 0.5) / 40)}"/>'
        )
    cells = [f'<g shape-rendering="crispEdges">{"".join(cells)}</g>']  # no seams
    for share in (0.0, 0.5, 1.0):
        value = low + share * (high - low)
        text = _tick(10.0**value) if log else f"{value:.2g}"
        at = _TOP + side * (1.0 - share) + 4
        cells.append(f'<text class="t" x="{bar + 22}" y="{at:.1f}">{text}</text>')
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        cells.append(
            _text(f"{share:g}", _LEFT + side * share, _TOP + side + 15)
            + _text(f"{share:g}", _LEFT - 6, _TOP + side * (1 - share) + 4, "end")
        )
    cells.append(
        f'<text class="t" x="{_LEFT + side / 2}" y="{_TOP + side + 34}" text-anchor="middle">{html.escape(x)}</text>'
    )
    middle = _TOP + side / 2
    cells.append(
        f'<text class="t" transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">{html.escape(y)}</text>'
    )
    return _frame(title, "".join(cells), [])


# ---------------------------------------------------------------- parts


class _Scale:
    """From numbers to places on the picture."""

    def __init__(self, values: Sequence[float | None], log: bool, begin: float, end: float):
        known = [v for v in values if v is not None]
        self.log, self.begin, self.end = log, begin, end
        low, high = min(known), max(known)
        if log:
            self.low, self.high = math.log10(low), math.log10(high)
        else:
            self.low, self.high = (0.0 if 0.0 <= low < 0.4 * high else low), high
        if self.high - self.low < 1e-9:
            self.low, self.high = self.low - 0.5, self.high + 0.5
        room = 0.03 * (self.high - self.low)
        self.high += room
        self.low -= room if log or self.low != 0.0 else 0.0

    def __call__(self, value: float) -> float:
        place = math.log10(value) if self.log else value
        return self.begin + (place - self.low) / (self.high - self.low) * (self.end - self.begin)

    def ticks(self) -> list[float]:
        """About five round numbers."""
        if self.log:
            first, last = math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9)
            step = max(1, math.ceil((last - first + 1) / 6))
            found = [10.0**k for k in range(first, last + 1, step)]
            return found if len(found) > 1 else sorted({*found, *self._twos_and_fives()})
        raw = (self.high - self.low) / 5
        size = 10.0 ** math.floor(math.log10(raw))
        step = next(size * f for f in (1, 2, 2.5, 5, 10) if size * f >= raw)
        return [k * step for k in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]

    def _twos_and_fives(self) -> list[float]:
        exponents = range(math.floor(self.low), math.ceil(self.high) + 1)
        return [f * 10.0**k for k in exponents for f in (2, 5) if self.low <= math.log10(f) + k <= self.high]


def _axes(x: Axis, y: Axis, x_scale: _Scale, y_scale: _Scale) -> str:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = []
    for tick in x_scale.ticks():
        at = x_scale(tick)
        parts.append(
            f'<path class="grid" d="M{at:.1f} {_TOP}V{bottom}"/>'
            f'<text class="t" x="{at:.1f}" y="{bottom + 15}" text-anchor="middle">{_tick(tick)}</text>'
        )
    for tick in y_scale.ticks():
        at = y_scale(tick)
        parts.append(
            f'<path class="grid" d="M{_LEFT} {at:.1f}H{right}"/>'
            f'<text class="t" x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{_tick(tick)}</text>'
        )
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{right}"/>')
    parts.append(
        _text(x.label, (_LEFT + right) / 2, bottom + 34)
        + f'<text class="t" transform="translate(14 {(_TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">'
        f"{html.escape(y.label)}</text>"
    )
    return "".join(parts)


def _frame(title: str, body: str, names: Sequence[str], height: int = _HEIGHT) -> str:
    """The picture with its title above and the legend below, in as many lines as it takes."""
    legend, column, line = [], 0.0, 0
    for number, name in enumerate(names):
        width = 30 + 6.6 * len(name)
        if column + width > _WIDTH - 20 and column > 0.0:
            column, line = 0.0, line + 1
        at, y = 12 + column, height + 12 + 18 * line
        legend.append(
            f'<rect class="f{number % 8}" x="{at:.0f}" y="{y - 6}" width="12" height="12" rx="2"/>'
            f'<text class="t" x="{at + 17:.0f}" y="{y + 4}">{html.escape(name)}</text>'
        )
        column += width
    total = height + (18 * (line + 1) + 6 if names else 0)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {total}" role="img" aria-label="{html.escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg"><text class="h" x="{_WIDTH / 2}" y="18" text-anchor="middle">'
        f"{html.escape(title)}</text>{body}{''.join(legend)}</svg>"
    )


def _mark(number: int, x: float, y: float) -> str:
    colour = f'class="mark f{number % 8}"'
    match _MARKS[number % len(_MARKS)]:
        case "circle":
            return f'<circle {colour} cx="{x:.1f}" cy="{y:.1f}" r="2.8"/>'
        case "square":
            return f'<rect {colour} x="{x - 2.5:.1f}" y="{y - 2.5:.1f}" width="5" height="5"/>'
        case "triangle":
            return f'<path {colour} d="M{x:.1f} {y - 3.4:.1f}l3.2 5.6h-6.4z"/>'
    return f'<path {colour} d="M{x:.1f} {y - 3.6:.1f}l3.6 3.6l-3.6 3.6l-3.6 -3.6z"/>'


def _tick(value: float) -> str:
    if value == 0.0:
        return "0"
    size = abs(value)
    if 1e-3 <= size < 1e4:
        return f"{value:.4g}"
    exponent = math.floor(math.log10(size) + 1e-9)
    mantissa = value / 10.0**exponent
    front = "" if abs(mantissa - 1.0) < 1e-6 else f"{mantissa:.3g}·"
    return f'{front}10<tspan dy="-4" font-size="8">{exponent}</tspan>'


def _colour(share: float) -> str:
    """From dark blue over green to yellow, about evenly bright."""
    stops = np.array([[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]], dtype=float)
    at = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    k = min(int(at), len(stops) - 2)
    red, green, blue = stops[k] + (at - k) * (stops[k + 1] - stops[k])
    return f"#{int(red):02x}{int(green):02x}{int(blue):02x}"


def _text(text: str, x: float, y: float, anchor: str = "middle") -> str:
    return f'<text class="t" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _spans_a_decade(values: Sequence[float]) -> bool:
    """Whether a logarithmic axis has a round number or two to show."""
    return min(values) > 0.0 and max(values) >= 10.0 * min(values)


def _is_shown(point: tuple[float | None, float | None], x: Axis, y: Axis) -> bool:
    px, py = point
    if px is None or py is None:
        return False
    return not (x.log and px <= 0.0) and not (y.log and py <= 0.0)
