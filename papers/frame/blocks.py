"""Tables, plots and sentences, which can be written as Markdown and as HTML."""

from __future__ import annotations

import html
import re
from typing import NamedTuple


class Table(NamedTuple):
    """Cells are text; a cell "a\\nb" has two lines. The first `n_heads` columns name the row."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""
    n_heads: int = 1

    def markdown(self) -> str:
        """As Markdown."""
        lines = [f"**{self.title}**\n", f"| {' | '.join(self.columns)} |", "|---" * len(self.columns) + "|"]
        lines += [f"| {' | '.join(cell.replace(chr(10), '<br>') for cell in row)} |" for row in self.rows]
        return "\n".join(lines) + (f"\n\n{self.note}" if self.note else "")

    def html(self) -> str:
        """As HTML."""
        head = "".join(f"<th scope=col>{_inline(column)}</th>" for column in self.columns)
        body = "".join(f"<tr>{self._row(row)}</tr>" for row in self.rows)
        note = f"<figcaption>{_inline(self.note)}</figcaption>" if self.note else ""
        return (
            f'<figure class="table"><h4>{_inline(self.title)}</h4><div class="scroll" tabindex=0><table>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}</figure>"
        )

    def _row(self, row: list[str]) -> str:
        heads = "".join(f"<th scope=row>{_inline(cell)}</th>" for cell in row[: self.n_heads])
        return heads + "".join(f"<td>{_inline(cell)}</td>" for cell in row[self.n_heads :])


class Plot(NamedTuple):
    """An SVG picture, or several side by side."""

    title: str
    svgs: list[str]
    note: str = ""

    def markdown(self) -> str:
        """A reference: pictures are in the report."""
        return f"**{self.title}** (a picture; see report.html)" + (f"\n\n{self.note}" if self.note else "")

    def html(self) -> str:
        """As HTML."""
        note = f"<figcaption>{_inline(self.note)}</figcaption>" if self.note else ""
        pictures = "".join(f'<div class="panel">{svg}</div>' for svg in self.svgs)
        return f'<figure class="plot"><h4>{_inline(self.title)}</h4><div class="panels">{pictures}</div>{note}</figure>'


class Text(NamedTuple):
    """A paragraph."""

    text: str

    def markdown(self) -> str:
        """As it is."""
        return self.text

    def html(self) -> str:
        """As HTML."""
        return f"<p>{_inline(self.text)}</p>"


Block = Table | Plot | Text


def _inline(text: str) -> str:
    """Escape; `code`, **bold** and line breaks."""
    text = html.escape(text, quote=False).replace("\n", "<br>")
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)


# ---------------------------------------------------------------- numbers as text


def number(value: float | None, digits: int = 3) -> str:
    """A number with so many digits; "-" for none."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e6 or size < 1e-4:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    if size >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def seconds(value: float | None) -> str:
    """Seconds, in a unit that suits them."""
    if value is None:
        return "-"
    if value < 1e-3:
        return f"{1e6 * value:.0f} µs"
    if value < 1.0:
        return f"{number(1e3 * value)} ms"
    return f"{number(value)} s"


def percent(share: float | None, digits: int = 1) -> str:
    """A share in per cent."""
    return "-" if share is None else f"{100 * share:.{digits}f} %"


def times(ratio: float | None) -> str:
    """A ratio, such as 20×."""
    return "-" if ratio is None else f"{number(ratio, 2)}×"
