"""How the site is built: ``python -m sphinx -W docs docs/_build``. Nothing is fetched from the network."""

from __future__ import annotations

import os
import re
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
sys.path.append(str(HERE.parent))  # benchmarks, which make tables of their own files
os.environ.setdefault("OMP_NUM_THREADS", "2")

import generated  # noqa: E402

import maxmargin  # noqa: E402

generated.write_reference(HERE / "api" / "solvers.rst")

project = "maxmargin"
author = "The maxmargin developers"
copyright = "the maxmargin developers"
version = release = maxmargin.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "mathml",  # docs/_extensions
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive",
    "generated",  # docs/_extensions: tables of solvers, losses and benchmarks; the changelog
]
exclude_patterns = ["_build", "_extensions", "**/README.rst", "gallery/**/*.ipynb"]
suppress_warnings = ["config.cache"]  # of sphinx-gallery's functions
default_role = "literal"
nitpicky = False
templates_path = ["_templates"]

# ---------------------------------------------------------------- code in docstrings

autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# ---------------------------------------------------------------- gallery

# MAXMARGIN_GALLERY=0 leaves the scripts unexecuted: text and layout in a minute, without their pictures.
sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "plot_gallery": os.environ.get("MAXMARGIN_GALLERY", "1") != "0",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "capture_repr": ("_repr_html_", "__repr__"),
    "min_reported_time": 10,
    "write_computation_times": False,  # their pages would ask for scripts elsewhere
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("maxmargin",),
    "inspect_global_variables": False,
}
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 144)]
plot_rcparams = {"figure.figsize": (6.4, 3.4), "font.size": 9}
plot_apply_rcparams = True
plot_include_source = False

# ---------------------------------------------------------------- html

html_theme = "pydata_sphinx_theme"
html_math_renderer = "mathml"
html_title = "maxmargin"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_logo = "_static/mark.svg"
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "start": [], "benchmarks": [], "claims": [], "changelog": [], "theory": []}
html_theme_options = {
    "logo": {"text": "maxmargin"},
    "show_toc_level": 2,
    "header_links_before_dropdown": 8,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "pygments_light_style": "friendly",
    "pygments_dark_style": "github-dark",
}

warnings.filterwarnings("ignore", message=".*is non-interactive", category=UserWarning)


def _escape_bars(app, what, name, obj, options, lines):
    """Bars are norms in our docstrings, |w|, and not substitutions."""
    for k, line in enumerate(lines):
        parts = re.split(r"(``.*?``|`[^`]*`)", line)
        lines[k] = "".join(part if part.startswith("`") else part.replace("|", r"\|") for part in parts)


def _mend_back_links(app, pagename, templatename, context, doctree):
    """From a source page to the reference: of names that are public in two places, the anchor is that of the page."""
    if pagename.startswith("_modules/"):

        def mended(link):
            page, name, anchor = link.groups()
            return f"{page}#{anchor if anchor.startswith(name) else name}"

        context["body"] = re.sub(r'([^"]*/api/generated/([\w.]+)\.html)#([\w.]+)', mended, context["body"])


def setup(app):
    """Called by Sphinx."""
    app.connect("html-page-context", _mend_back_links)
    app.connect("autodoc-process-docstring", _escape_bars, priority=900)  # after numpydoc
