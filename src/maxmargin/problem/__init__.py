"""The problem that every solver solves, and the questions that it answers: see `maxmargin.problem.problem`."""

from maxmargin.certificate import Certificate
from maxmargin.problem.checks import check_weights
from maxmargin.problem.problem import Problem

__all__ = ["Certificate", "Problem", "check_weights"]
