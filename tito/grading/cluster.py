"""Send grading jobs to a Dask cluster; its workers need the course's checkout and what is installed with it."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import CancelledError
from typing import Any

from tito.errors import TitoError
from tito.grading.job import Job, Result, refused

PATIENCE = 5  # seconds for the scheduler to answer
AHEAD = 2  # jobs sent per thread of the cluster: what waits here need not lie in its memory


def _task() -> Callable[[Job], Result]:
    """Return the function that a worker runs.

    It is made here so that it travels as code: the scheduler, which reads it, need not have `tito`.
    """
    def grade(job: Job) -> Result:
        try:
            from tito.grading.job import grade_one
        except ModuleNotFoundError as error:
            import platform

            return {"key": job["key"], "status": "stop", "message":
                    f"the worker on {platform.node()} has no {error.name}; install this checkout there, "
                    "`pip install -e '.[notebook]'`."}
        return grade_one(job)

    return grade


def results(address: str, jobs: Iterable[Job],
            task: Callable[[Job], Result] | None = None) -> Generator[Result, None, None]:
    """Yield the results of ``jobs`` as the cluster at ``address`` has them; closing this cancels what waits there.

    A worker that dies is replaced by another one, by Dask's own rule, until a job has ended several of them.
    """
    try:
        from distributed import Client, as_completed
        from distributed.scheduler import KilledWorker
    except ModuleNotFoundError:
        raise TitoError("--workers needs dask.distributed; `pip install -e '.[grade]'` in the checkout installs "
                        "it.") from None

    class Given(Client):  # type: ignore[misc]
        """A client that is given up in silence where nobody answers."""

        def start(self, **about: Any) -> None:
            try:
                super().start(**about)
            except BaseException:
                self.status = "closed"  # its end would wait ten seconds, and print a traceback
                raise

    try:
        client = Given(address, timeout=PATIENCE, set_as_default=False)
    except Exception as error:  # what answers like a web server, as the scheduler's dashboard does, is a MemoryError
        raise TitoError(f"no Dask scheduler answers at {address} ({type(error).__name__}); it is started with `dask "
                        "scheduler` and says its address.") from None
    with client:
        threads = sum(client.nthreads().values())
        if not threads:
            raise TitoError(f"the Dask scheduler at {address} has no workers; start some with `dask worker "
                            f"{address}`.")
        waiting, sent, task, run = iter(jobs), {}, task or _task(), uuid.uuid4().hex

        def send(jobs: Iterable[Job], again: str = "") -> list[Any]:
            futures = []
            for job in jobs:
                futures.append(client.submit(task, job, key=f"tito-{job['key']}-{run}{again}", pure=False))
                sent[futures[-1].key] = job
            return futures

        def came(future: Any) -> Result:
            try:
                result: Result = future.result()
                return result
            except KilledWorker:
                raise
            except CancelledError:
                raise TitoError(f"the Dask scheduler at {address} is gone; the same command goes on where it "
                                "was.") from None
            except Exception as error:
                return refused(sent[future.key], f"this should not happen: {type(error).__name__}: {error}")

        coming, suspects = as_completed(send(itertools.islice(waiting, AHEAD * threads)), loop=client.loop), []
        for future in coming:
            try:
                yield came(future)
            except KilledWorker:
                suspects.append(sent[future.key])
            del sent[future.key]
            coming.update(send(itertools.islice(waiting, 1)))
        for job in suspects:  # Dask blames also what waited in a worker that died: alone, each shows whose fault it was
            try:
                yield came(send([job], "-alone")[0])
            except KilledWorker:
                yield refused(job, "this should not happen: its grading ended the workers it ran on")
