"""A fitted model in a few lines: what ran, how far it got, what was proven."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from typing import Any

_STYLE = "border-collapse:collapse;margin:.4em 0;font-size:.9em"
_CELL = "text-align:left;padding:.15em .8em .15em 0;border:0"


class Summary(Mapping[str, str]):
    """Facts of a fitted model: text at a prompt, a table in a notebook, and a mapping of names to strings.

    Attributes
    ----------
    title : str
        The estimator.
    facts : dict of str to str

    Examples
    --------
    >>> summary = Summary("LinearSVC()", {"solver": "tron", "stopped": "converged"})
    >>> summary
    LinearSVC()
      solver   tron
      stopped  converged
    >>> summary["solver"]
    'tron'
    """

    def __init__(self, title: str, facts: dict[str, str]):
        self.title, self.facts = title, facts

    def __getitem__(self, name: str) -> str:
        return self.facts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.facts)

    def __len__(self) -> int:
        return len(self.facts)

    def __repr__(self) -> str:
        width = max(map(len, self.facts), default=0)
        return "\n".join([self.title, *(f"  {name:<{width}}  {fact}" for name, fact in self.facts.items())])

    def _repr_html_(self) -> str:
        rows = (
            f'<tr><th style="{_CELL}">{html.escape(name)}</th><td style="{_CELL}">{html.escape(fact)}</td></tr>'
            for name, fact in self.facts.items()
        )
        return f'<table class="maxmargin-summary" style="{_STYLE}"><tbody>{"".join(rows)}</tbody></table>'


def summarize(estimator: Any) -> Summary:
    """The summary of a fitted estimator; what an estimator does not have is left out."""
    parts = (_size, _solver, _certificate, _stop)
    facts = {name: fact for part in parts for name, fact in part(estimator).items()}
    return Summary(" ".join(repr(estimator).split()), facts)


def _size(estimator: Any) -> dict[str, str]:
    facts = {}
    classes = getattr(estimator, "classes_", None)
    if classes is not None:
        shown = ", ".join(map(str, classes[:6])) + (", ..." if len(classes) > 6 else "")
        facts["classes"] = f"{len(classes)}: {shown}"
    facts["features"] = f"{estimator.n_features_in_:,}"
    vectors = getattr(estimator, "support_vectors_", None)
    if vectors is not None:
        budget = getattr(estimator, "budget_", None)
        facts["support vectors"] = f"{vectors.shape[0]:,}" + ("" if budget is None else f" (budget {budget:,})")
    if hasattr(estimator, "C_"):
        facts["C chosen"] = f"{estimator.C_:g}"
    return facts


def _solver(estimator: Any) -> dict[str, str]:
    solver = getattr(estimator, "solver_", None)
    histories = [each for each in getattr(estimator, "histories_", []) if len(each["passes"])]
    facts = {} if solver is None else {"solver": str(getattr(solver, "name", solver))}
    if histories:
        passes = max(float(each["passes"][-1]) for each in histories)
        seconds = sum(float(each["seconds"][-1]) for each in histories)
        of_all = f", all {len(histories)} problems together" if len(histories) > 1 else ""
        facts["work"] = f"{passes:.3g} {'pass' if passes == 1 else 'passes'} in {seconds:.3g} s{of_all}"
    if hasattr(estimator, "t_"):
        facts["rows learnt from"] = f"{estimator.t_:,}"
    return facts


def _certificate(estimator: Any) -> dict[str, str]:
    certificates = getattr(estimator, "certificates_", [])
    if not certificates:
        return {"certificate": "none"}
    worst = max(certificates, key=lambda each: each.relative_gap)
    several = f" (worst of {len(certificates)} problems)" if len(certificates) > 1 else ""
    which = " with these support vectors" if hasattr(estimator, "budget_") else ""
    return {
        "objective": f"{worst.primal:.6g}, the optimum is at least {worst.dual:.6g}{several}",
        "certificate": f"at most {100 * worst.relative_gap:.2g} % above the optimum{which}, proven",
    }


def _stop(estimator: Any) -> dict[str, str]:
    reason = getattr(estimator, "stop_reason_", None)
    if reason is None:
        return {}
    return {"stopped": f"{reason} (tol = {estimator.tol:g})" if reason == "converged" else str(reason)}
