"""A page that was warned of is read again by the next build, which would otherwise find no fault in it."""

from __future__ import annotations

import json
import logging
import re
from copy import copy
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.logging import InfoLogRecordTranslator


class Places(logging.Handler):
    """Keeps where warnings were, as texts such as "/…/docs/faq.md:12"."""

    def __init__(self, app: Sphinx) -> None:
        super().__init__(logging.WARNING)
        self.as_text = InfoLogRecordTranslator(app)
        self.found: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a place; the record itself goes on to Sphinx as it came."""
        record = copy(record)
        self.as_text.filter(record)  # type: ignore[arg-type]
        self.found.add(getattr(record, "location", None) or "")


def keep(app: Sphinx, places: set[str]) -> None:
    """Write down the pages that were warned of; an empty name where a warning named none."""
    pages = {app.project.path2doc(re.sub(r":\d*$", "", place)) or "" for place in places}
    Path(app.doctreedir, "warned.json").write_text(json.dumps(sorted(pages)), encoding="utf-8")


def outdated(app: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    """Name these pages to Sphinx; where a warning named none, all."""
    kept = Path(app.doctreedir, "warned.json")
    warned = set(json.loads(kept.read_text(encoding="utf-8"))) if kept.is_file() else set()
    return sorted(env.found_docs if warned - env.found_docs else warned)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    places = Places(app)
    logging.getLogger("sphinx").addHandler(places)
    app.connect("env-get-outdated", outdated)
    app.connect("build-finished", lambda app, error: keep(app, places.found))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
