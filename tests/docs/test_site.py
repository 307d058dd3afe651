"""The site as a reader meets it: every link leads somewhere, every page is looked at in Chromium.

The whole site is built once for this file, which takes some minutes; TINYTORCH_SITE=build/docs looks at one that is
built. The browser is the chromium that is installed (TINYTORCH_BROWSER=path names another).
"""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

from tito.notebooks.read import read_source
from tito.project import find_root, modules

ROOT = find_root(Path(__file__))
LOOK = Path(__file__).with_name("look.js").read_text(encoding="utf-8")
LISTS = {"genindex.html", "search.html", "py-modindex.html"}  # Sphinx's own, in no toctree
NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDE, PHONE = {"width": 1100, "height": 800}, {"width": 390, "height": 844}
KINDS = ("console", "requests", "phone", "text", "contrast", "pictures", "scrolling", "focus", "tab", "enter")


# ---- what is built

def files():
    """Return what lies in docs/, but for what a build may write there."""
    return {path for path in (ROOT / "docs").rglob("*")
            if "__pycache__" not in path.parts and ROOT / "docs" / "chapters" not in (path, *path.parents)}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site in a folder of its own: where it is, how the build went, what it left behind."""
    if "TINYTORCH_SITE" in os.environ:
        return SimpleNamespace(folder=Path(os.environ["TINYTORCH_SITE"]).resolve(), done=None, left=set())
    if os.environ.get("CI") != "true":
        for name in ("myst_nb", "furo", "sphinx_copybutton"):
            pytest.importorskip(name, reason="the site is not built: pip install -e '.[dev]' brings what it needs")
    place = tmp_path_factory.mktemp("site")
    before = files()
    done = subprocess.run([sys.executable, "-m", "sphinx", "-W", "--keep-going", "--quiet", "-d", place / "doctrees",
                           "-b", "html", "docs", place / "html"], cwd=ROOT, capture_output=True, text=True, check=False,
                          encoding="utf-8", stdin=subprocess.DEVNULL)
    return SimpleNamespace(folder=place / "html", done=done, left=files() - before)


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Write three HTML reports: two models that ran, one that was counted on shapes."""
    folder = tmp_path_factory.mktemp("reports")
    for model, *more in (("digits_mlp", "--iterations", "5"), ("digits_cnn", "--iterations", "5"),
                         ("gpt2_small", "--count-only")):
        subprocess.run([sys.executable, "-m", "tito", "profile", model, *more, "--html", folder / f"{model}.html"],
                       cwd=ROOT, capture_output=True, check=True, stdin=subprocess.DEVNULL,
                       env={**os.environ, "TINYTORCH_CACHE": str(folder / "cache")})
    return folder


@pytest.fixture(scope="module")
def browser():
    """Start the installed Chromium, once."""
    if os.environ.get("CI") != "true":
        pytest.importorskip("playwright", reason="no page was opened: pip install -e '.[dev]' brings Playwright")
    from playwright.sync_api import sync_playwright

    path = os.environ.get("TINYTORCH_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if not path:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say("no page was opened, for there is no chromium: install it (apt-get install chromium) or name a browser "
            "with TINYTORCH_BROWSER")
    with sync_playwright() as play:
        rights = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        running = play.chromium.launch(executable_path=path, args=[*rights, "--disable-gpu", "--disable-dev-shm-usage"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def seen(site, browser):
    """Look at every page of the site: {kind: complaints}."""
    return look_at(browser, site.folder, headings=lambda path: path.name not in LISTS)


# ---- links, without a browser

class Page(HTMLParser):
    """The ids, links and text of a page."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.tags, self.turns, self.words = set(), [], [], {}, []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        self.ids |= {attrs[key] for key in ("id", "name") if attrs.get(key) and (key == "id" or tag == "a")}
        for key in ("href", "src", "xlink:href", "data", "poster", "action"):
            if attrs.get(key) is not None:
                self.links.append((tag, attrs[key]))
        self.links += [(tag, part.split()[0]) for part in (attrs.get("srcset") or "").split(",") if part.strip()]
        self.links += [(tag, url) for url in addresses(attrs.get("style") or "")]
        for turn in ("next-page", "prev-page"):
            if turn in (attrs.get("class") or "").split():
                self.turns[turn] = attrs["href"]

    def handle_data(self, data):
        self.words.append(data)


def addresses(css):
    """Return what a style sheet loads."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    loads = re.findall(r"""url\(\s*["']?([^"')]*)|@import\s+["']([^"']*)""", css)
    return [one or other for one, other in loads]


def all_pages(folder):
    return {path: Page(path) for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts}


def dead_links(folder):
    """Return the links of all pages and style sheets that lead nowhere, or load what is not in the folder."""
    pages, found = all_pages(folder), []
    links = [(path, tag, url) for path, page in pages.items() for tag, url in page.links]
    links += [(path, "css", url) for path in sorted(folder.rglob("*.css"))
              for url in addresses(path.read_text(encoding="utf-8"))]
    for path, tag, url in links:
        where, anchor = urldefrag(url.strip())
        parts = urlsplit(where)
        if parts.scheme == "data" and tag in ("img", "css"):
            continue
        if parts.scheme or parts.netloc:
            if tag != "a" or not re.fullmatch(r"https://[\w-]+(\.[\w-]+)+(/\S*)?", url):
                found.append(f"{path.relative_to(folder)}: <{tag}> {url}")
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        known = pages[target].ids if target in pages else ()
        if not target.is_file() or (anchor and target in pages and unquote(anchor) not in {*known, "top"}):
            found.append(f"{path.relative_to(folder)}: <{tag}> {url}")
    return found


def broken_walk(folder):
    """Go from the start page by "next" to the end; return what is wrong on the way, and the pages it never meets."""
    pages, found, path, before, walked = all_pages(folder), [], (folder / "index.html").resolve(), None, []
    while path in pages and path not in walked:
        walked.append(path)
        turns = {turn: (path.parent / unquote(urldefrag(url)[0])).resolve() for turn, url in pages[path].turns.items()}
        if turns.get("prev-page") != before:
            found.append(f"{path.relative_to(folder)}: the previous page is not the one before it")
        before, path = path, turns.get("next-page")
    if path is not None:
        why = "met before" if path in walked else "missing"
        found.append(f"{walked[-1].relative_to(folder)}: the next page is {why}")
    return found + [f"{page.relative_to(folder)}: never met" for page in pages
                    if page not in walked and page.name not in LISTS]


# ---- pages, in the browser

ACTIVE = """() => {
  const element = document.activeElement, box = element.getBoundingClientRect(), style = getComputedStyle(element);
  if (element === document.body) return "nothing is reached";
  const inside = box.width > 1 && box.height > 1 && box.bottom > 0 && box.top < innerHeight && box.right > 0;
  return inside && style.opacity > 0 ? "" : `what is reached is not seen: ${element.outerHTML.slice(0, 80)}`;
}"""
FOLDED = "() => [...document.querySelectorAll('details:not([open]) > summary')].filter(one => one.checkVisibility())"
STILL = "*, ::before, ::after { transition: none !important; animation: none !important }"
SETTLE = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0))))"


LOOKS = ((WIDE, "light", ["phone", "contrast", "scrolling", "focus"]),
         (PHONE, "dark", ["phone", "text", "contrast", "pictures", "scrolling", "headings"]))


def look_at(browser, folder, headings=lambda path: True):
    """Open each page below a folder, wide and light, then as a phone in dark mode: {kind: complaints}."""
    found = {kind: [] for kind in (*KINDS, "headings")}
    page = browser.new_page(viewport=WIDE, color_scheme="light")
    now = [""]  # the page that is open

    def say(kind, text):
        found[kind].append(f"{now[0]}: {text}")

    page.on("console", lambda message: message.type in ("error", "warning") and say("console", message.text))
    page.on("pageerror", lambda error: say("console", str(error)))
    ours = (folder.as_uri(), "data:")
    page.on("request", lambda request: request.url.startswith(ours) or say("requests", request.url))
    page.on("requestfailed", lambda request: say("requests", f"failed: {request.url}"))
    for path in sorted(folder.rglob("*.html")):
        if "_static" in path.parts:
            continue
        now[0] = str(path.relative_to(folder))
        page.goto("about:blank")  # or the page before would be laid out once more
        page.set_viewport_size(WIDE)
        page.emulate_media(color_scheme="light")
        page.goto(path.as_uri())
        page.add_style_tag(content=STILL)
        page.evaluate(SETTLE)
        page.keyboard.press("Tab")
        reached = page.evaluate(ACTIVE)
        if reached:
            say("tab", reached)
        summary = page.evaluate_handle(f"() => ({FOLDED})()[0] || null").as_element()
        if summary:
            summary.focus()
            page.keyboard.press("Enter")
            if not summary.evaluate("one => one.parentElement.open"):
                say("enter", f"does not open: {summary.inner_text()}")
        for size, scheme, kinds in LOOKS:
            page.set_viewport_size(size)
            page.emulate_media(color_scheme=scheme)
            page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")
            page.evaluate(SETTLE)
            for kind, text in page.evaluate(LOOK, kinds):
                if kind != "headings" or headings(path):
                    say(kind, f"{text} ({size['width']} px, {scheme})")
    page.close()
    return found


# ---- the site

def test_the_build_is_quiet(site):
    if site.done is None:
        pytest.skip("TINYTORCH_SITE is looked at as it is: nothing was built")
    assert (site.done.returncode, site.done.stderr) == (0, "")
    assert not site.left


def test_every_link_leads_somewhere_and_nothing_is_loaded_from_elsewhere(site):
    assert dead_links(site.folder) == []


def test_next_and_previous_walk_through_all_pages(site):
    assert broken_walk(site.folder) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_page_is_well_in_the_browser(seen, kind):
    assert seen[kind] == []


def test_headings_go_down_step_by_step(seen):
    assert seen["headings"] == []


def test_the_start_page_shows_a_profile_and_its_picture(site):
    page = Page(site.folder / "index.html")
    text = "".join(page.words)
    for words in ("digits_mlp on (32, 64)", "Linear", "bottleneck", "limited by"):
        assert words in text, words
    assert any(tag == "img" and attrs["src"].startswith("_images/") for tag, attrs in page.tags)


@pytest.mark.parametrize("module", modules(ROOT), ids=lambda module: module.label)
def test_a_chapter_has_the_pictures_and_tables_of_its_source(site, module):
    cells = read_source(module)["cells"]
    draw = [cell for cell in cells if cell["cell_type"] == "code"
            and re.search(r"^[^#]*(plt\.subplots\(|show\(pictures\.)", cell["source"], re.MULTILINE)]
    tables = [line for cell in cells if cell["cell_type"] == "markdown"
              for line in cell["source"].splitlines() if re.match(r"\|[\s:|-]+\|$", line)]
    tags = [tag for tag, _ in Page(site.folder / "chapters" / f"{module.label}.html").tags]
    assert tags.count("img") >= len(draw)
    assert tags.count("table") >= len(tables)


# ---- the HTML report of a profile

def test_reports_are_well_in_the_browser(reports, browser):
    assert {kind: found for kind, found in look_at(browser, reports).items() if found} == {}
    assert dead_links(reports) == []


def test_reports_follow_the_dark_mode_and_their_pictures_keep_white_paper(reports, browser):
    page = browser.new_page(color_scheme="dark")
    page.goto((reports / "digits_mlp.html").as_uri())
    colours = [page.evaluate(f"() => getComputedStyle(document.querySelector('{name}')).backgroundColor")
               for name in ("body", "figure img")]
    page.close()
    assert max(map(int, re.findall(r"\d+", colours[0]))) < 60 and colours[1] == "rgb(255, 255, 255)"


# ---- each check can fail

GOOD = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>t</title>
<meta name="viewport" content="width=device-width"><style>
:root { color-scheme: light dark } pre { overflow: auto } CSS</style></head>
<body><h1>One</h1><p><a href="#two">a link</a></p><h2 id="two">Two</h2>BODY</body></html>"""
LONG = "x" * 400
PIXEL = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
PLANTED = {
    "good": ("", f'<pre tabindex="0">{LONG}</pre><img alt="dot" src="{PIXEL}">'
                 "<details><summary>more</summary>it</details>"),
    "console": ("", "<script>nonsense()</script>"),
    "requests": ("", '<link rel="stylesheet" href="https://localhost:9/x.css">'),
    "phone": ("", f"<p>{LONG}</p>"),
    "text": ("small { font-size: 11px }", "<small>fine print</small>"),
    "contrast": ("@media (prefers-color-scheme: dark) { code { color: #555 } }", "<p><code>code</code></p>"),
    "pictures": ("", f'<img alt="" src="{PIXEL}">'),
    "scrolling": ("", f"<pre>{LONG}</pre>"),
    "focus": ("a { outline: none }", ""),
    "tab": ("a { position: absolute; left: -999px }", ""),
    "enter": ("", "<details><summary onkeydown='event.preventDefault()'>more</summary>it</details>"),
    "headings": ("", "<h4>Four</h4>"),
}
MORE = [
    ("console", "", "<script>console.error('no')</script>"),
    ("requests", "", '<img alt="gone" src="gone.png">'),
    ("pictures", "", '<img alt="gone" src="gone.png">'),
    ("contrast", "p { opacity: .4 }", "<p>faint</p>"),
    ("contrast", "", '<details><summary>more</summary><p style="background: #777; color: #999">folded</p></details>'),
    ("scrolling", "", f"<details><summary>more</summary><pre>{LONG}</pre></details>"),
    ("headings", "", "<h1>another</h1>"),
]


def plant(folder, css="", body=""):
    folder.mkdir(exist_ok=True)
    (folder / "index.html").write_text(GOOD.replace("CSS", css).replace("BODY", body), encoding="utf-8")
    return folder


@pytest.mark.parametrize(("kind", "css", "body"), [(kind, *rest) for kind, rest in PLANTED.items()] + MORE)
def test_each_look_finds_what_is_planted(browser, tmp_path, kind, css, body):
    found = look_at(browser, plant(tmp_path, css, body))
    assert [name for name, complaints in found.items() if complaints and name == kind] == [kind] * (kind != "good")
    if kind == "good":
        assert not any(found.values()), found


@pytest.mark.parametrize(("body", "dead"), [
    ('<a href="https://numpy.org/doc/">fine</a><a href="#two">fine</a><a href="index.html#two">fine</a>', False),
    ('<a href="gone.html">x</a>', True), ('<a href="#gone">x</a>', True), ('<a href="index.html#gone">x</a>', True),
    ('<img alt="x" src="gone.png">', True), ('<img alt="x" src="https://numpy.org/x.png">', True),
    ('<script src="//cdn.example.org/x.js"></script>', True), ('<a href="http://numpy.org">x</a>', True),
    ('<a href="https://numpy">x</a>', True), ('<a href="https://numpy.org/a b">x</a>', True),
    ('<a href="file:///tmp/x">x</a>', True), ('<p style="background: url(gone.png)">x</p>', True),
    ('<svg><use href="#gone"></use></svg>', True), ('<img alt="x" srcset="gone.png 2x">', True)])
def test_dead_links_are_found(tmp_path, body, dead):
    assert len(dead_links(plant(tmp_path, body=body))) == dead


def test_a_style_sheet_that_loads_from_elsewhere_is_found(tmp_path):
    plant(tmp_path)
    (tmp_path / "x.css").write_text('@import "gone.css"; a { background: url("https://a.org/x.png") } /* url(no) */')
    assert dead_links(tmp_path) == ["x.css: <css> gone.css", "x.css: <css> https://a.org/x.png"]


@pytest.mark.parametrize(("turns", "wrong"), [
    ({"index": (None, "a"), "a": ("index", "b"), "b": ("a", None)}, ""),
    ({"index": (None, "a"), "a": ("index", None), "b": (None, None)}, "b.html: never met"),
    ({"index": (None, "a"), "a": (None, None)}, "a.html: the previous page is not"),
    ({"index": (None, "a"), "a": ("index", "index")}, "a.html: the next page is met before"),
    ({"index": (None, "gone")}, "index.html: the next page is missing")])
def test_a_broken_walk_is_found(tmp_path, turns, wrong):
    for name, (previous, following) in turns.items():
        links = [f'<a class="{turn}-page" href="{to}.html">{turn}</a>'
                 for turn, to in (("prev", previous), ("next", following)) if to]
        (tmp_path / f"{name}.html").write_text("".join(links), encoding="utf-8")
    assert " ".join(broken_walk(tmp_path)).startswith(wrong) and bool(broken_walk(tmp_path)) == bool(wrong)
