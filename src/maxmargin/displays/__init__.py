"""Pictures of training, in the style of scikit-learn's displays: ``from_estimator``, ``from_result``, ``ax=``.

Matplotlib (extra `plot`) is imported when a picture is drawn. A display keeps its data, so that ``display.plot(...)``
draws them once more in another way; ``display.ax_`` and ``display.figure_`` are Matplotlib's, to be changed at will.
"""

from maxmargin.displays.budget import BudgetDisplay
from maxmargin.displays.convergence import ConvergenceDisplay
from maxmargin.displays.path import PathDisplay

__all__ = ["BudgetDisplay", "ConvergenceDisplay", "PathDisplay"]
