"""What ``solver="auto"`` does: a choice from the problem's shape, and a watch that goes on with another solver.

Dual coordinate descent is the fastest start on sparse data with many features, and hopeless where C |x|^2 is large and
rows are many; second-order methods need a handful of passes there, each of which builds an n x n matrix. So:

* An L1 penalty: primal coordinate descent, or cutting planes for a loss with a kink. Logistic loss: Newton's method.
* A smooth loss with few features: Newton's method, unless rows are sparse and C |x|^2 <= 1, where two or three passes
  of coordinate descent are all it takes. Where that does not end (mnist unscaled, C = 1e4: rounding of a
  gradient whose terms are so large), the augmented Lagrangian goes on.
* A loss with a kink and few features: coordinate descent, if C |x|^2 is moderate (for the hinge: beside what the next
  would cost); then the augmented Lagrangian, and the interior point for the like of mnist at C = 1e4.
* Many features: coordinate descent. With more rows than features and a smooth loss, Newton's method with conjugate
  gradients after it, or at once if there are twice as many and C |x|^2 is large; with fewer rows, which can nearly be
  separated, that is no help.
* Rows that are not in memory: Newton's method for smooth losses; for others the augmented Lagrangian, or with many
  features OCAS, before which coordinate descent by blocks is tried if an eighth of sparse rows fits into memory.
* An intercept without penalty is beyond these: Newton's method for a smooth loss; for one with a kink the interior
  point, or with many features OCAS.

This is a guess; the certified gap is the judge. While a solver runs, its gap tells how many passes it will need: if
they cost more than all of the next one, that one goes on from the solution so far. The first look comes after five
passes or ten, which are all that most problems take that are tried so. ``python -m benchmarks choice`` is the table
that justifies the numbers below.

A small problem is finished: its solver goes on to the last digits that rounding leaves.

Nothing here looks at the clock, so the same problem takes the same course everywhere.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin import losses, penalties
from maxmargin.penalties import L1, L2
from maxmargin.problem import Certificate, Problem
from maxmargin.solvers import registry as solvers
from maxmargin.solvers.base import Result, Solver, run
from maxmargin.solvers.interrupts import catch_interrupt

_FEW_FEATURES = 1000  # for which a method that factors an n x n matrix is quick
_SOME_FEATURES = 3000  # for which it is still better than no end
_EASY = 1.0  # C |x|^2 of the mean row up to which rows hardly interact
_HARD = 4.0  # and from which they need more passes of coordinate descent than all of a second-order method costs
_VERY_HARD = 30.0  # and from which that is so without a matrix, too
_HINGE_HARD = 2.4  # the same for the hinge, whose rows beyond the margin are shrunk: see `_is_hard`
# From which on C |x|^2, in problems of so few values, wants the interior point method.
_UNSCALED, _FEW_VALUES = 1e6, 100_000
_STEPS = {"augmented_lagrangian": 20.0, "tron": 4.0, "interior_point": 50.0}  # for all C, give or take a half
_MATRICES = {"augmented_lagrangian": 2.0, "tron": 1.0, "interior_point": 25.0}  # of all rows that these build
_CALLS = 1e5  # nanoseconds that the calls of a step take, however few the rows
_CONJUGATE_GRADIENTS = 120.0  # passes of coordinate descent that Newton's method costs without a matrix: 30 to 300
_ROOM = 0.125  # share of sparse rows from which on coordinate descent by blocks is quicker than OCAS
_FAR = 0.1  # relative gap above which the dual objective tells more than the gap
_LONG, _FEW_LOOKS = 400.0, 5  # passes and certificates before the last solver is judged
_FALLS = 0.9  # by which, at least, gaps must fall while passes double
_WORK = 2e10  # stored values that the last solver may visit if there is no other limit: a minute or two
# Passes before these are judged, whose gaps fall all at once, if they fall.
_LATE_LOOK = {"tron": 50.0, "interior_point": 150.0, "augmented_lagrangian": 300.0}
_SMALL = 2000  # rows times weights of a problem that costs less to finish than to begin
_PASSES_TO_FINISH = 1000.0
_ROUNDING = 1e-18  # relative gap below anything that these numbers can show
_PASSES_BETWEEN = 30.0  # at most, two certificates of small problems, each of which takes longer than these
_LOOK = 4e5  # nanoseconds of passes that are worth a certificate, whose calls take a third of that
_FIRST_LOOK = 0.2, 5.0, 10.0  # share of the next solver's price that one may cost before it is judged, in passes


def plan(problem: Problem) -> list[Solver]:
    """Solvers for a problem, in the order in which to try them."""
    penalty, is_free = problem.penalty, problem.has_free_intercept
    first_choice = [
        name
        for name in _order(problem)
        if name in solvers.names() and solvers.takes(name, problem.loss, penalty, free_intercept=is_free)
        if solvers.get(name).access in problem.accesses
    ]
    if first_choice:
        return [solvers.get(name) for name in first_choice]
    able = solvers.supporting(problem.loss, penalty, free_intercept=is_free)
    able = [name for name in able if solvers.get(name).access in problem.accesses]
    if able:
        return [solvers.get(able[0])]
    takers = [name for name in losses.names() if solvers.supporting(losses.get(name), penalty, free_intercept=is_free)]
    kind = "" if isinstance(penalty, L2) else f" with penalty {penalties.name_of(penalty)!r}"
    if is_free:
        kind += " and penalize_intercept=False"
    raise ValueError(
        f"no solver takes loss {losses.name_of(problem.loss)!r}{kind} yet; "
        f"there are solvers for {', '.join(takers) or 'none'}"
    )


def _order_of_passes(problem: Problem) -> list[str]:
    """For rows on disk or on a cluster: methods of few passes."""
    n = problem.n_weights
    if isinstance(problem.penalty, L1):
        return ["bmrm"]
    if not _has_kink(problem):
        return ["tron"]
    if problem.has_free_intercept:
        return ["interior_point"] if n <= _SOME_FEATURES else ["ocas"]
    if n > _SOME_FEATURES:
        return ["block_cd", "ocas"] if _has_room_for_blocks(problem.source) else ["ocas"]
    return ["augmented_lagrangian" if solvers.get("augmented_lagrangian").access in problem.accesses else "ocas"]


def _has_room_for_blocks(source: Any) -> bool:
    """Whether enough sparse rows fit into memory at a time for coordinate descent by blocks to beat OCAS."""
    return not source.is_dense and source.room >= _ROOM * source.n_rows * source.row_bytes


def _order(problem: Problem) -> list[str]:
    if "rows" not in problem.accesses:
        return _order_of_passes(problem)
    n = problem.n_weights
    if isinstance(problem.penalty, L1):
        return ["bmrm"] if _has_kink(problem) else ["primal_cd"]
    if isinstance(problem.loss, losses.Logistic):
        return ["tron"]
    if problem.has_free_intercept:
        return ["tron"] if not _has_kink(problem) else ["interior_point"] if n <= _SOME_FEATURES else ["ocas"]
    difficulty = float(problem.cost @ problem.norms2) / problem.n_rows
    if n > _SOME_FEATURES:
        if _has_kink(problem) or n >= problem.n_rows:
            return ["dual_cd"]
        return ["tron"] if difficulty > _VERY_HARD and 2 * n <= problem.n_rows else ["dual_cd", "tron"]
    after = ["augmented_lagrangian", "interior_point"] if _has_kink(problem) else ["tron", "augmented_lagrangian"]
    if _has_kink(problem) and difficulty > _UNSCALED and n * problem.n_rows <= _FEW_VALUES:
        after.reverse()
    is_hard = n <= min(_FEW_FEATURES, problem.n_rows) and _is_hard(problem, difficulty)
    return after if is_hard else ["dual_cd", *after]


def _is_hard(problem: Problem, difficulty: float) -> bool:
    """Whether all of a second-order method costs less than the passes that coordinate descent needs.

    Of the hinge, these are more the larger C |x|^2, and the more rows there are for each feature. Power and factor
    are fitted to nine sets, to 1e-3, at values of C where the two cost about the same; mushrooms and phishing, where
    coordinate descent would be faster still, lose some hundredths of a second.
    """
    if isinstance(problem.loss, losses.Hinge):
        rows_a_feature = problem.n_rows / problem.n_weights
        return difficulty * rows_a_feature**0.2 > _HINGE_HARD * price(problem, solvers.get("augmented_lagrangian"))
    if _has_kink(problem):
        return difficulty > _HARD
    return problem.source.is_dense or difficulty > _EASY


def _has_kink(problem: Problem) -> bool:
    return isinstance(problem.loss, losses.WITH_KINK)


def price(problem: Problem, solver: Solver) -> float:
    """What a solver will cost, roughly, in passes of coordinate descent."""
    from maxmargin.problem.gram import row_cost

    if problem.n_weights > _SOME_FEATURES:
        return _CONJUGATE_GRADIENTS
    stored = problem.source.n_stored / problem.n_rows
    of_step = 1.5 * stored + 25.0 + 0.1 * problem.n_weights**3 / problem.n_rows  # ns a row
    of_step += 0.0 if solver.name == "tron" else _CALLS / problem.n_rows  # its small steps are one compiled loop
    total = _STEPS[solver.name] * of_step + _MATRICES[solver.name] * row_cost(problem.source)
    return total / (_of_pass(problem) / problem.n_rows)


def _of_pass(problem: Problem) -> float:
    """Nanoseconds of a pass of coordinate descent."""
    return 5.0 * (problem.source.n_stored + 4.0 * problem.n_rows)


def solve_auto(problem: Problem, *, tol: float = 1e-3, **options: Any) -> Result:
    """Solve with the solvers of the plan, one after the other, until one is not stalled.

    A checkpoint holds the state of the solver that ran, and a resumed run goes on with that one. (The history then
    begins where that solver began.)
    """
    with contextlib.ExitStack() as stack:
        if options.get("interrupt") is None:
            options["interrupt"] = stack.enter_context(catch_interrupt())
        return _solved(problem, tol, options)


def _solved(problem: Problem, tol: float, options: dict[str, Any]) -> Result:
    todo, result = _left_to_do(plan(problem), options.get("checkpoint")), None
    for solver, after in zip(todo, [*todo[1:], None]):
        watch = {"give_up": _is_stuck} if after is None else _watch(problem, tol, solver, after)
        if after is None and options.get("max_iter") is None:
            options["max_iter"] = max(solver.max_passes, _WORK / (problem.source.n_stored + 4.0 * problem.n_rows))
        if result is None:
            result = run(solver, problem, tol=tol, **watch, **options)
        elif result.stop_reason == "stalled":
            left = {name: _left(options.get(name), spent) for name, spent in _spent(result).items()}
            _forget(options.get("checkpoint"))
            start = result if np.isfinite(result.w).all() else None
            result = _joined(result, run(solver, problem, tol=tol, **watch, **{**options, **left, "start": start}))
    assert result is not None
    return finished(problem, result, **options)


def finished(problem: Problem, result: Result, **options: Any) -> Result:
    """Of a small problem that has converged: what its solver finds if it goes on, for some passes, down to rounding.

    That takes a millisecond, and the weights hardly depend any more on the way they were found: a row of weight 2 is
    the same row twice to seven digits, not only to `tol`. History and passes remain those that met the goal.
    """
    is_small = "rows" in problem.accesses and problem.n_rows * problem.n_weights <= _SMALL
    if not is_small or result.stop_reason != "converged" or result.certificate is None:
        return result
    left: dict[str, Any] = {name: _left(options.get(name), spent) for name, spent in _spent(result).items()}
    left["max_iter"] = min(_PASSES_TO_FINISH, left["max_iter"] or math.inf)
    left |= {name: options[name] for name in ("seed", "interrupt") if name in options}
    closer = run(result.solver, problem, tol=_ROUNDING, start=result, check_every=_PASSES_BETWEEN, **left)
    if closer.certificate is None or not closer.certificate.gap < result.certificate.gap:
        return result
    before: dict[str, Any] = {name: getattr(result, name) for name in ("history", "passes", "stop_reason", "detail")}
    return replace(closer, seconds=result.seconds + closer.seconds, **before)


def _left_to_do(todo: list[Solver], checkpoint: Any) -> list[Solver]:
    """The plan from the solver on that wrote the checkpoint, if there is one."""
    if checkpoint is None:
        return todo
    from maxmargin.models.checkpoint import solver_of

    names = [solver.name for solver in todo]
    saved = solver_of(checkpoint)
    return todo[names.index(saved) :] if saved in names else todo


def _forget(checkpoint: Any) -> None:
    """Remove the checkpoint of a solver that gave up; the next one saves its own as it begins."""
    if checkpoint is not None:
        Path(checkpoint).unlink(missing_ok=True)


# ---------------------------------------------------------------- the watch


def _watch(problem: Problem, tol: float, solver: Solver, after: Solver) -> dict[str, Any]:
    """Arguments of `run`: when to look, and how to judge."""
    (share, least, most), patience = _FIRST_LOOK, price(problem, after)
    first_look = min(max(share * patience, least), most)
    if _has_kink(problem):  # of others a step of Newton's method, whose digits are exact, is as cheap
        first_look = max(first_look, min(_LOOK / _of_pass(problem), _PASSES_BETWEEN))
    first_look = _LATE_LOOK.get(solver.name, first_look)
    return {"check_every": first_look, "give_up": _is_hopeless(tol, patience, first_look)}


def _is_hopeless(tol: float, patience: float, first_look: float) -> Callable[[list[dict[str, float]]], bool]:
    """A judge of histories: whether the goal, at the present rate, is more passes away than patience."""

    def judge(history: list[dict[str, float]]) -> bool:
        now = history[-1]
        # Progress is not even, so what counts is the last third of the way.
        lately = [entry for entry in history if entry["passes"] <= now["passes"] - max(first_look, now["passes"] / 3.0)]
        before = lately[-1] if lately else {"passes": 0.0, "relative_gap": 1.0, "dual": 0.0}
        passes = now["passes"] - before["passes"]
        if now["relative_gap"] > _FAR:
            # The gap is near 1 for long while the dual objective grows steadily: how far has it to go?
            gained, wanted = now["dual"] - before["dual"], min(entry["primal"] for entry in history) - now["dual"]
        else:
            gained, wanted = (
                math.log(max(start, 1e-300) / max(end, 1e-300))
                for start, end in ((before["relative_gap"], now["relative_gap"]), (now["relative_gap"], tol))
            )
        return passes >= first_look and not gained * patience >= wanted * passes  # nor if a number is no number

    return judge


def _is_stuck(history: list[dict[str, float]]) -> bool:
    """Whether the last solver of a plan gets nowhere: in the later half of its passes nothing has become better."""
    now = history[-1]
    earlier = [entry for entry in history if entry["passes"] <= 0.5 * now["passes"]]
    if now["passes"] < _LONG or len(earlier) < _FEW_LOOKS:
        return False
    gap_then, gap_now = (min(entry["relative_gap"] for entry in entries) for entries in (earlier, history))
    (low_then, high_then), (low_now, high_now) = (
        (max(entry["dual"] for entry in entries), min(entry["primal"] for entry in entries))
        for entries in (earlier, history)
    )
    return gap_now > _FALLS * gap_then and high_now - low_now > _FALLS * (high_then - low_then)


def _spent(result: Result) -> dict[str, float]:
    return {"max_iter": result.passes, "max_time": result.seconds}


def _left(limit: float | None, spent: float) -> float | None:
    return None if limit is None else max(limit - spent, 1e-9)


def _joined(before: Result, after: Result) -> Result:
    """The better of two results, with the seconds, passes and history of both; nan where a solver does not count."""
    earlier = {"seconds": before.seconds, "passes": before.passes}
    rows = len(before.history["passes"]), len(after.history["passes"])
    history = {}
    for name in dict.fromkeys([*before.history, *after.history]):
        parts = [side.history.get(name, np.full(n, np.nan)) for side, n in zip((before, after), rows)]
        history[name] = np.concatenate([parts[0], parts[1] + earlier.get(name, 0.0)])
    best = _better(before, after)
    return replace(best, history=history, seconds=before.seconds + after.seconds, passes=before.passes + after.passes)


def _better(before: Result, after: Result) -> Result:
    """The later result, unless the one before had the lower objective; the bounds of both hold for either."""
    assert before.certificate is not None
    assert after.certificate is not None
    if after.stop_reason == "converged" or after.certificate.primal <= before.certificate.primal:
        return after
    primal = before.certificate.primal
    dual = float(np.fmax(before.certificate.dual, after.certificate.dual))
    gap = float(np.fmin(before.certificate.gap, primal - dual))
    certificate = Certificate(primal, dual, gap)
    return replace(before, certificate=certificate, stop_reason=after.stop_reason, detail=after.detail)
