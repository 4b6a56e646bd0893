"""What a numpydoc docstring lists, whatever its indentation: Python 3.13 strips it, earlier versions do not."""

import inspect
import re
from ast import literal_eval


def sections(thing):
    """Texts of the docstring's sections by title."""
    parts = re.split(r"^(\w[\w ]*)\n-+$", inspect.getdoc(thing), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def entries(thing, title="Parameters"):
    """Names listed in a section."""
    return re.findall(r"^(\w+) : ", sections(thing).get(title, ""), flags=re.M)


def defaults(thing):
    """Parameters with the default values that the docstring names."""
    found = re.findall(r"^(\w+) : .*default=(.*)$", sections(thing)["Parameters"], flags=re.M)
    return {name: literal_eval(default) for name, default in found}
