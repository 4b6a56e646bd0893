"""Models on disk: maxmargin's own safe file, and the text files of LIBLINEAR and LIBSVM.

    file                        bytes: arrays and JSON under a checksum; reading runs no code
    codec                       values: one way from trees of numbers, arrays and tags to a file, and back
    contents                    names: what the tree of each kind of model has, checked; `version1` brings old ones up
    budget, online, checkpoint  what is each kind's own: the state of a training that can go on
    estimator                   `save` and `load` of estimators
    predictor                   `open_model`: models that predict without scikit-learn, for the command line
    liblinear, libsvm, foreign  the text files, and these in our terms

A new kind of estimator has its name in `contents.LINEAR` or `contents.KERNEL` and in `estimator`; its tree has the
names of its family, and nothing else has to be written for it to be saved, loaded and used by the command line.
"""

from maxmargin.models.file import Model, ModelFileError, read_model, write_model
from maxmargin.models.liblinear import LiblinearModel, is_liblinear, read_liblinear, write_liblinear
from maxmargin.models.libsvm import is_libsvm, read_libsvm, write_libsvm

__all__ = [
    "LiblinearModel",
    "Model",
    "ModelFileError",
    "is_liblinear",
    "is_libsvm",
    "read_liblinear",
    "read_libsvm",
    "read_model",
    "write_liblinear",
    "write_libsvm",
    "write_model",
]
