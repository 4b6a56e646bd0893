"""Linear machines on a Dask cluster: the same parameters, the same optimum, the same certificate.

>>> from maxmargin.dask import LinearSVC                                                    # doctest: +SKIP
>>> LinearSVC(loss="logistic").fit(X, y)            # dask arrays, on the default client    # doctest: +SKIP

The rows stay on the workers. A lost worker costs the loading of its partitions and what it was at; the answer has the
same bits, for any number of workers. Vectors with an entry for each row are the driver's: it needs some 64 bytes a row.
"""

from maxmargin.dask.estimators import LinearSVC, LinearSVCCV, LinearSVR, path

__all__ = ["LinearSVC", "LinearSVCCV", "LinearSVR", "path"]
