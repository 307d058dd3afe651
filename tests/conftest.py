"""Every test leaves a clean table: no listener, no scope, no tracing, gc and random state as before.

Tests marked ``rotates(number, ...)`` take turns, so that every one of them has run after a week: on each day those with
a number that leaves this day's rest when divided by 7, and all of them with TINYTORCH_ALL=1.
"""

import datetime
import gc
import os
import tracemalloc

if "PYTEST_XDIST_WORKER" in os.environ:  # side by side, the threads of matrix products would only wait for each other
    for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(_name, "1")

import numpy as np
import pytest
from hypothesis import Phase, settings

from tinytorch.core import tensor as door

# the same verdict every time, on any machine; a failing example is made smaller, but not varied a thousand times more
# to explain it, which took three times as long as all other tests of a module together
settings.register_profile("course", derandomize=True, deadline=None,
                          phases=[phase for phase in Phase if phase is not Phase.explain])
settings.load_profile("course")


PARTS = 7
TODAY = None if os.environ.get("TINYTORCH_ALL") else datetime.datetime.now(datetime.timezone.utc).toordinal() % PARTS


def pytest_report_header():
    """Say what is left out today."""
    today = "all" if TODAY is None else f"part {TODAY + 1} of {PARTS}, the rest is left out (TINYTORCH_ALL=1 runs all)"
    return f"tests that take turns (mutants, nbgrader, whole references): {today}"


def pytest_collection_modifyitems(config, items):
    """Take out what has its turn on another day, and begin with the longest file: its site takes minutes to build."""
    items.sort(key=lambda item: item.path.name != "test_site.py")
    turns = {item: item.get_closest_marker("rotates") for item in items}
    out = [item for item, mark in turns.items()
           if TODAY is not None and mark and TODAY not in [number % PARTS for number in mark.args]]
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
