"""Every test leaves a clean table: no listener, no scope, no tracing, gc and random state as before."""

import gc
import tracemalloc

import numpy as np
import pytest
from hypothesis import settings

from tinytorch.core import tensor as door

settings.register_profile("course", derandomize=True, deadline=None)  # the same verdict every time, on any machine
settings.load_profile("course")


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
