"""Module 14's tests keep their hands off the user's cache folder, and measure the machine once."""

import gc

import pytest


@pytest.fixture(autouse=True, scope="session")
def thawed():
    """What ``young_heap`` froze is searched again when the tests are over."""
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def young_heap():
    """Each measurement collects garbage first; what the test run itself holds need not be searched each time."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def cache_folder(tmp_path_factory):
    """Limits of the machine are kept in a folder of the tests' own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TINYTORCH_CACHE", str(folder))
        yield folder


@pytest.fixture
def clock():
    """A clock that stands still until ``advance`` lets milliseconds pass."""
    return StandingClock()


class StandingClock:
    """clock() reads nanoseconds and is counted; clock.advance(ms) lets time pass."""

    def __init__(self):
        self.now, self.reads = 0, 0

    def __call__(self):
        self.reads += 1
        return self.now

    def advance(self, ms):
        self.now += round(ms * 1e6)
