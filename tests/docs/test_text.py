"""The pages read as text, unbuilt: kinds of fences, computed numbers, headings, toctrees, links."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

from tito.project import find_root, modules

ROOT = find_root(Path(__file__))
READER = MarkdownIt("commonmark").enable("table").use(front_matter_plugin).use(colon_fence_plugin).use(deflist_plugin)

# what a fence may be, and so who runs what is in it
CELL, SHELL = "{code-cell} ipython3", "console"  # the build; test_commands.py
KINDS = {CELL, SHELL, "text", "{eval-rst}", "{toctree}"}
PROSE = {"{note}", "{tip}", "{warning}", "{seealso}", "{admonition}"}  # directives with prose in them, read as such
TAKEN = {"{figure}", "{image}", "{literalinclude}", "{include}"}  # directives that take a file in
WRITTEN = [f"chapters/{module.label}" for module in modules(ROOT)] + ["chapters/index"]  # by the build

# numerals that may be typed in prose: pattern, why
NUMBER = r"\d+(?:\.\d+)*"
UNITS = (r"([x×](?! ?\d)|%|-fold|times|[kKMGT]?i?B|[mµn]?s|minutes?|hours?|bytes?|[kKMGT]?FLOPs?(/s)?|[kKMGT]B/s|"
         r"parameters?)")
QUANTITY = rf"(?<![\w.])~?\d[\d,.]* ?{UNITS}(?![\w/])|(?<![\w.,(\[])\d{{1,3}}(,\d{{3}})+(?![\w,\])])"
ALLOWED = {
    rf"\b([Mm]odules?|[Cc]hapters?|[Ss]ections?|§|[Mm]ilestones?) ?{NUMBER}((, | and | or | to |, and )\d\d\b)*":
        "the name of a module, or a section's number",
    r"\b(0[1-9]|1\d|20) to (0[1-9]|1\d|20)\b": "modules, from one to another",
    r"\b0[1-9]((, | and | or )(0[1-9]|1\d|20))*\b|\b(1\d|20) · ": "a module's two digits, in a list or in its title",
    rf"^# {NUMBER}\.? ": "a heading's own number",
    rf"\b(Python|NumPy|PyTorch|Sphinx|MyST-NB|TinyTorch|[Vv]ersions?|CC BY) ({NUMBER}(, | and | or | to |-)?)+\b":
        "a version",
    rf"\b(19[3-9]\d|20[0-3]\d)s?\b(?![.,]?\d| ?({UNITS}|samples?|tokens?|pictures?)(?!\w))": "a year",
    r"\barXiv:\d{4}\.\d{4,5}\b|\b10\.\d{4,9}/\S+": "a paper's number",
    r"\bx86-64\b|\bIEEE 754\b|\b[A-Z][A-Za-z]*-\d+\b|\b[A-Za-z_]+\d\w*":
        "part of a name: GPT-3, LeNet-5, float32",
}
MARKS = re.compile(r"<!-- figures: written by (\S+) -->\n.*?<!-- end of figures -->\n", re.DOTALL)


def site(root):
    """Name every hand-written page of a site's folder, as Sphinx does: without suffix, from the folder."""
    pages = [path.relative_to(root / "docs") for path in sorted((root / "docs").rglob("*.md"))]
    return {page.with_suffix("").as_posix(): (root / "docs" / page).read_text(encoding="utf-8") for page in pages
            if page.parts[0] != "chapters" and not any(part.startswith("_") for part in page.parts)}


PAGES = site(ROOT)


def tokens(text, first=0):
    """Yield the blocks of a page with the number of the line before each, those inside directives of prose too."""
    for token in READER.parse(text):
        line = first + (token.map[0] if token.map else 0)
        yield token, line
        name = (token.info.split() or [""])[0] if token.type in ("fence", "colon_fence") else ""
        if name in PROSE:
            lines = token.content.splitlines()
            options = next((i for i, each in enumerate(lines) if not re.match(r":[\w-]+:", each)), len(lines))
            title = token.info.removeprefix(name).strip()
            yield from tokens("\n" * options + "\n".join(lines[options:]), line + 1)
            yield from tokens(title, line)


def fences(text):
    return [(token.info.strip(), token.content, line + 1) for token, line in tokens(text)
            if token.type in ("fence", "colon_fence")]


def unkind(text):
    """Return what is wrong with the fences of a page."""
    faults = []
    for info, content, line in fences(text):
        if info not in KINDS and (info.split() or [""])[0] not in PROSE | TAKEN:
            faults.append(f"{line}: a fence of the kind {info!r}: nobody runs it")
        if info == SHELL:
            bad = re.findall(r"^(?!\$ \S).+", re.sub(r"\\\n", "", content), re.MULTILINE)
            faults += [f"{line}: {each!r} is no command: lines of a console fence begin with '$ '" for each in bad]
    return faults


def numbers(text):
    """Return (line, numeral) of what is typed in prose and not of an allowed form.

    Code spans and ``text`` fences may have shapes and literals, but no quantities: digits with a unit, or in groups.
    What a script wrote between its marks is not typed.
    """
    found = []
    text = MARKS.sub(lambda part: "\n" * part[0].count("\n") if (ROOT / part[1]).is_file() else part[0], text)

    def prose(words, line):
        for pattern in ALLOWED:
            words = re.sub(pattern, lambda part: "·" * len(part[0]), words)
        found.extend((line, each.rstrip(".,")) for each in re.findall(r"\d[\d,.]*\w*|[½¼¾]", words))

    heading = False
    for token, before in tokens(text):
        line = before + 1
        if token.type == "inline":
            told, words = "", "# " if heading else ""
            for child in [*token.children, None]:
                if child is None or child.type in ("softbreak", "hardbreak", "code_inline"):
                    prose(words, line)
                    told, words = words, ""
                elif child.type in ("text", "image"):
                    words += child.content
                if child is not None and child.type == "code_inline" and not told.endswith("}"):
                    found += [(line, part[0]) for part in re.finditer(QUANTITY, child.content)]
                line += child is not None and child.type in ("softbreak", "hardbreak")
            heading = False
        elif token.type == "heading_open":
            heading = True
        elif token.type == "html_block":
            bare = re.sub(r"(?s)<!--.*?-->|<[^>]*>", lambda part: "\n" * part[0].count("\n"), token.content)
            for number, each in enumerate(bare.splitlines()):
                prose(each, line + number)
        elif token.type == "fence" and token.info.strip() == "text":
            for number, each in enumerate(token.content.splitlines(), 1):
                found += [(line + number, part[0]) for part in re.finditer(QUANTITY, each)]
    return found


def taken(path):
    """Return what a page of the site's folder takes in."""
    return (ROOT / "docs" / path).read_text(encoding="utf-8")


def misshapen(text):
    """Return what is wrong with the frame of a page: its front matter, its headings."""
    faults = []
    runs = any(info.startswith("{code-cell}") for info, _, _ in fences(text)) or "{eval}`" in text
    front = text.split("---\n")[1] if text.startswith("---\n") else ""
    if runs and not ("file_format: mystnb" in front and "name: python3" in front
                     and re.search(r"execution_mode: (inline|force)", front)):
        faults.append("it has cells, and no front matter that says so: copy that of howto/count-flops.md")
    text = re.sub(r"^```\{include\} (\S+)\n[^`]*```$", lambda part: taken(part[1]), text, flags=re.MULTILINE)
    levels = [(int(token.tag[1]), line + 1) for token, line in tokens(text) if token.type == "heading_open"]
    if [level for level, _ in levels].count(1) != 1 or levels[0][0] != 1:
        faults.append(f"want one title (#), before all other headings; got {[level for level, _ in levels]}")
    faults += [f"{line}: a heading of level {level} under one of level {above}"
               for (above, _), (level, line) in zip(levels, levels[1:]) if level > above + 1]
    return faults


def resolved(link, page):
    """Say where a link of a page leads, from the folder of the site."""
    parts = [] if link.startswith("/") else list(Path(page).parent.parts)
    for part in Path(link.lstrip("/")).parts:
        parts = parts[:-1] if part == ".." and parts and parts[-1] != ".." else [*parts, part]
    return "/".join(parts)


def listed(pages):
    """Return (page, where it is listed) of every toctree."""
    found = []
    for page, text in pages.items():
        for info, content, _ in fences(text):
            entries = [] if info != "{toctree}" else [
                re.sub(r".*<(.*)>$", r"\1", line.strip()).removesuffix(".md").removesuffix(".ipynb")
                for line in content.splitlines() if line.strip() and not re.match(r":[\w-]+:", line)]
            for entry in entries:
                place = resolved(entry, page)
                named = [each for each in pages if fnmatch(each, place)] if "*" in place else [place]
                found += [(each, page) for each in named]
    return found


def unlisted(pages):
    """Return the pages that are in no toctree, or in more than one."""
    places = {page: [place for each, place in listed(pages) if each == page] for page in pages}
    return [f"{page}: in {found or 'no toctree'}" for page, found in places.items()
            if len(found) != (0 if page == "index" else 1)]


def dead(page, text, root):
    """Return the relative links of a page, and files it takes in, that lead to no file."""
    targets = [(resolved(info.split()[1], page), line) for info, _, line in fences(text)
               if info.split() and info.split()[0] in TAKEN and len(info.split()) > 1]
    for token, line in tokens(text):
        for child in token.children or []:
            target = child.attrGet("href" if child.type == "link_open" else "src")
            if target and not re.match(r"[a-z]+:|#", target):
                targets.append((resolved(target.split("#")[0], page), line + 1))
    return [f"{line}: {target}" for target, line in targets
            if not (root / "docs" / target).is_file() and re.sub(r"\.(ipynb|md)$", "", target) not in WRITTEN]


@pytest.mark.parametrize("page", PAGES)
def test_every_fence_is_of_a_kind_that_is_run_or_draws(page):
    assert unkind(PAGES[page]) == []


def test_fences_of_contributing():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8") if (ROOT / "CONTRIBUTING.md").is_file() else ""
    assert unkind(re.sub(r"^```(python|diff)$", "```text", text, flags=re.MULTILINE)) == []  # test_contributing.py


@pytest.mark.parametrize("page", PAGES)
def test_no_number_is_typed(page):
    found = numbers(PAGES[page])
    assert not found, "\n".join(f"docs/{page}.md:{line}: {number!r} is typed; compute it in a cell and name it with "
                                "{eval}" for line, number in found)


@pytest.mark.parametrize("page", PAGES)
def test_frame_of_a_page(page):
    assert misshapen(PAGES[page]) == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page):
    assert dead(page, PAGES[page], ROOT) == []


def test_every_page_is_in_one_toctree():
    assert unlisted(PAGES) == []


# planted: each check sees the fault, and lets pass what is none

@pytest.mark.parametrize("fence, faults", [
    ("```python\n1\n```", 1), ("```\n1\n```", 1), ("```{code-cell} python\n1\n```", 1), ("~~~js\n1\n~~~", 1),
    ("- a list\n\n  ```bash\n  ls\n  ```", 1), ("```{note}\n```sh\nls\n```\n```", 2),
    ("````{tip}\n```sh\nls\n```\n````", 1),
    ("```console\n$ ls\nout\n```", 1), ("```console\nls\n```", 1),
    (":::{warning}\n```py\n1\n```\n:::", 1),
    ("```console\n$ ls\n```", 0), ("```console\n$ ls \\\n  -l\n```", 0), ("```text\na -> b\n```", 0),
    ("```{code-cell} ipython3\n1\n```", 0), ("```{toctree}\na\n```", 0), ("````{note}\n```console\n$ ls\n```\n````", 0),
])
def test_planted_fences(fence, faults):
    assert len(unkind(fence)) == faults, unkind(fence)


@pytest.mark.parametrize("prose, caught", [
    ("It has 2,410 parameters.", ["2,410"]), ("takes 2x as long", ["2x"]), ("a gain of 1.5", ["1.5"]),
    ("## Three of 4\n", ["4"]), ("| a |\n|---|\n| 98.3% |\n", ["98.3"]), ("- 12 GB\n", ["12"]),
    ("> 5½ hours\n", ["5½"]), ("[7 pages](x.md)", ["7"]), ("![a 3 by 3 window](x.svg)", ["3", "3"]),
    ("In 2048 bytes", ["2048"]), ("some 2000 parameters", ["2000"]), ("```{note}\nhas 7\n```", ["7"]),
    (":::{tip}\nhas 7\n:::", ["7"]), ("````{admonition} The 8 ops\nx\n````", ["8"]),
    ("<details><summary>All 31</summary>\n\nor 32\n\n</details>", ["31", "32"]), ("*1e6* ops", ["1e6"]),
    ("`12 ms` and `2x` and `524,800`", ["12 ms", "2x", "524,800"]), ("```text\na -> 3.5 GB/s\n```", ["3.5 GB/s"]),
    ("<!-- figures: written by benchmarks/none.py -->\nall 8\n<!-- end of figures -->\n", ["8"]),
    ("Exit status 0", ["0"]), ("**10**x", ["10x"]),
    ("Module 14, modules 15 to 19, 09, and sections 3.1", []), ("Modules 09, 11 and 12 need it", []),
    ("05, 14 and some", []),
    ("Python 3.10 or newer, Sphinx 9", []), ("Python 3.10, 3.11 and 3.12", []), ("In 1957, and the 1980s", []),
    ("GPT-3, LeNet-5, int8, float32, UTF-8, x86-64", []), ("arXiv:1706.03762", []), ("## 2. Install\n", []),
    ("shapes `(32, 64)`, `8 x 8`, `bits=8`, `1024`, `bytes / 1024²`", []), ("has {eval}`flops_2` of them", []),
    ("1. first\n2. second\n", []), ("[14 · Profiling](../chapters/14_profiling.ipynb)", []),
    ("[a paper](https://doi.org/10.1145/1498765.1498785)", []), ("```{code-cell} ipython3\nx = 7\n```", []),
    ("---\nkernelspec: {name: python3}\nn: 7\n---\n# A page\n", []), ("```text\n(32, 64) -> (32, 10)\n```", []),
    ("<!-- figures: written by benchmarks/pages.py -->\nall 8\n<!-- end of figures -->\n", []), ("the 2 of it", ["2"]),
])
def test_planted_numbers(prose, caught):
    assert [number for _, number in numbers(prose)] == caught


def test_a_planted_number_is_found_in_its_line():
    text = "---\na: 1\n---\n# Page\n\nOne\ntwo 3\n\n```{note}\n:class: x4\n\nfive\nsix 7\n```\n\n- a\n- 8\n"
    assert numbers(text) == [(7, "3"), (13, "7"), (17, "8")]


def test_every_allowed_form_is_needed():
    """A form is in the table because something above passes by it, and by nothing else in it."""
    passing = next(mark for mark in test_planted_numbers.pytestmark if mark.name == "parametrize").args[1]
    for pattern in ALLOWED:
        assert any(not caught and re.search(pattern, prose.replace("##", "#")) for prose, caught in passing), pattern


FRONT = "---\nfile_format: mystnb\nkernelspec: {name: python3}\nmystnb: {execution_mode: inline}\n---\n"


@pytest.mark.parametrize("text, faults", [
    ("# A\n\n```{code-cell} ipython3\n1\n```\n", 1), ("# A\n\nhas {eval}`x`\n", 1), (FRONT + "A page\n", 1),
    ("# A\n\n# B\n", 1), ("## A\n\n# B\n", 1), ("# A\n\n### B\n", 1),
    (FRONT.replace("inline", "off") + "# A\n\n{eval}`x`", 1),
    ("# A\n\n## B\n\n### C\n\n## D\n", 0), (FRONT + "# A\n\n```{code-cell} ipython3\n# no title\n```\n", 0),
    ("```{include} ../README.md\n:relative-docs: docs/\n```\n", 0), ("# A\n\n```{include} ../README.md\n```\n", 1),
])
def test_planted_frames(text, faults):
    assert len(misshapen(text)) == faults, misshapen(text)


def test_planted_toctrees_and_links(tmp_path):
    pages = {
        "index": "# I\n```{toctree}\n:hidden:\nhowto/index\nlost.md\nchapters/index\n```\n",
        "howto/index": "# H\n```{toctree}\n:glob:\na*\nB <b>\n../lost\n```\n",
        "howto/a1": "[up](../index.md#i) [out](../../README.md) [gone](c.md) [dead](../gone.svg) ![p](../p.svg)\n",
        "howto/b": "[14](../chapters/14_profiling.ipynb) [99](../chapters/99_no.ipynb) [all](../chapters/index.md)\n"
                   "[x](https://x.org) [here](#h)\n"
                   "```{literalinclude} ../../tito/no.py\n```\n",
        "lost": "", "alone": "",
    }
    for page, text in pages.items():
        path = tmp_path / "docs" / f"{page}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "docs" / "p.svg").write_text("", encoding="utf-8")
    (tmp_path / "README.md").write_text("", encoding="utf-8")
    assert site(tmp_path) == pages
    assert unlisted(pages) == ["lost: in ['index', 'howto/index']", "alone: in no toctree"]
    assert unlisted({**pages, "index": "# I\n"})[0] == "howto/index: in no toctree"
    assert dead("howto/a1", pages["howto/a1"], tmp_path) == ["1: howto/c.md", "1: gone.svg"]
    assert dead("howto/b", pages["howto/b"], tmp_path) == ["3: ../tito/no.py", "1: chapters/99_no.ipynb"]
