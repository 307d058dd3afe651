"""What the profiler promises of all its verbs together; `tito test profiling` asks for what a learner wrote of it."""

import gc

import pytest


@pytest.fixture(autouse=True, scope="session")
def cache_folder(tmp_path_factory):
    """Limits of the machine are kept in a folder of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TINYTORCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def young_heap():
    """Each measurement collects garbage first; what the test run itself holds need not be searched each time."""
    gc.freeze()
    yield
    gc.unfreeze()
