"""The built site: no page asks for anything outside, no link is dead, search has something to find."""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow
REQUESTS = {("script", "src"), ("link", "href"), ("img", "src"), ("source", "src"), ("iframe", "src")}


class Page(HTMLParser):
    """What a page fetches, where it links to, and what can be linked to."""

    def __init__(self, text):
        super().__init__()
        self.fetched, self.links, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        for name, value in attributes:
            if (tag, name) in REQUESTS and value:
                self.fetched.append(value)
            elif (tag, name) == ("a", "href") and value:
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site: docs/_build if it is there, else built without running the gallery."""
    pytest.importorskip("sphinx", reason="pip install maxmargin[docs]")
    folder = ROOT / "docs" / "_build"
    if not (folder / "index.html").exists():
        folder = tmp_path_factory.mktemp("site")
        options = {"env": {**os.environ, "MAXMARGIN_GALLERY": "0"}, "cwd": ROOT}
        subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", "docs", folder], check=True, **options)
    pages = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.html")}
    static = {name: path for name, path in pages.items() if name.startswith("_static/")}
    return folder, {name: Page(path.read_text()) for name, path in pages.items() if name not in static}


def test_no_page_asks_for_anything_outside(site):
    _, pages = site
    outside = {(name, url) for name, page in pages.items() for url in page.fetched if urlsplit(url).netloc}
    assert outside == set()


def test_style_sheets_ask_for_nothing_outside(site):
    folder, _ = site
    for path in folder.rglob("*.css"):
        text = path.read_text()
        assert "url(http" not in text.replace('"', "").replace("'", "").replace(" ", ""), path
        assert "@importurl(http" not in text.replace('"', "").replace(" ", ""), path


def test_no_link_is_dead(site):
    folder, pages = site
    dead = []
    for name, page in pages.items():
        for url in (*page.links, *page.fetched):
            parts = urlsplit(url)
            if parts.scheme or parts.netloc or url == "#":
                continue
            target = (folder / name).parent / unquote(parts.path) if parts.path else folder / name
            if target.is_dir():
                target = target / "index.html"
            where = os.path.relpath(target.resolve(), folder.resolve())
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and where in pages and anchor not in pages[where].anchors):
                dead.append((name, url))
    assert dead == []


def test_search_has_an_index_with_our_words(site):
    folder, _ = site
    index = (folder / "searchindex.js").read_text()
    assert all(word in index for word in ("certif", "budgetsvc", "calibr", "onnx"))


@pytest.mark.skipif(shutil.which("chromium") is None, reason="a browser, chromium, is not installed")
def test_search_finds_pages_in_a_browser(site, tmp_path):
    folder, _ = site
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    options += ["--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path}"]
    found = {}
    for word in ("certificate", "qwertzuiop"):
        url = f"{(folder / 'search.html').as_uri()}?q={word}"
        command = ["chromium", *options, "--virtual-time-budget=10000", "--dump-dom", url]
        page = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
        found[word] = re.search(r"found (\d+) pages? matching", page)
    assert int(found["certificate"][1]) > 10
    assert found["qwertzuiop"] is None


def test_every_page_has_one_title_and_a_language(site):
    folder, pages = site
    for name in ("index.html", "start.html", "guide/deploy.html", "gallery/index.html", "api/index.html"):
        text = (folder / name).read_text()
        assert text.count("<h1") == 1, name
        assert '<html lang="en"' in text
        assert name in pages
