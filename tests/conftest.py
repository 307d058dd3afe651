"""Every test leaves a clean table: no listener, no scope, no tracing, gc and random state as before.

Tests marked ``rotates(number)`` take turns: a part of them runs each day, all of them with TINYTORCH_ALL=1.
"""

import datetime
import gc
import os
import tracemalloc

import numpy as np
import pytest
from hypothesis import settings

from tinytorch.core import tensor as door

settings.register_profile("course", derandomize=True, deadline=None)  # the same verdict every time, on any machine
settings.load_profile("course")


PARTS = 4
TODAY = None if os.environ.get("TINYTORCH_ALL") else datetime.datetime.now(datetime.timezone.utc).toordinal() % PARTS


def pytest_report_header():
    today = "all" if TODAY is None else f"part {TODAY + 1} of {PARTS} (all: TINYTORCH_ALL=1)"
    return f"tests that take turns: {today}"


def pytest_collection_modifyitems(config, items):
    """Take out what has its turn on another day."""
    turns = {item: item.get_closest_marker("rotates") for item in items}
    out = [item for item in items if TODAY is not None and turns[item] and turns[item].args[0] % PARTS != TODAY]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in set(out)]


def _table():
    state = door.thread_state()
    return {
        "gradient mode": state.grad_enabled,
        "shape-only mode": state.shape_only,
        "open scopes": state.path,
        "privacy": state.private,
        "listeners": (state.hearers, state.scope_hearers),
        "listeners in all threads": tuple(map(tuple, door._everywhere)),
        "the door's clock": tuple(door._clocks),
        "tracemalloc": tracemalloc.is_tracing(),
        "gc": gc.isenabled(),
        "NumPy's global random state": np.random.get_state()[1].tobytes(),
        "NumPy's error mode": np.geterr(),
    }


@pytest.fixture(autouse=True)
def clean_table():
    """Fail the test that leaves something switched on behind it."""
    before = _table()
    yield
    after = _table()
    changed = [name for name in before if before[name] != after[name]]
    assert not changed, f"left changed: {', '.join(changed)}"
