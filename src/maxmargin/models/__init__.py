"""Models on disk: maxmargin's own safe file, and LIBLINEAR's text files.

`write_model` and `read_model` keep arrays and plain values under a checksum and run no code when they load.
`write_liblinear` and `read_liblinear` exchange linear models with LIBLINEAR and whatever else reads its files.
`write_libsvm` gives kernel models to LIBSVM.
"""

from maxmargin.models.file import Model, ModelFileError, read_model, write_model
from maxmargin.models.liblinear import LiblinearModel, is_liblinear, read_liblinear, write_liblinear
from maxmargin.models.libsvm import is_libsvm, write_libsvm

__all__ = [
    "LiblinearModel",
    "Model",
    "ModelFileError",
    "is_liblinear",
    "is_libsvm",
    "read_liblinear",
    "read_model",
    "write_liblinear",
    "write_libsvm",
    "write_model",
]
