"""Pending jobs in an order, of which the first that is narrow enough is wanted."""

import heapq
from collections.abc import Collection
from typing import Generic, TypeVar

from domain.jobs import Job

Key = TypeVar("Key", bound=tuple[float | str, ...])


class PendingByWidth(Generic[Key]):
    """One heap per width: the best job of at most a given width costs O(widths + log n).

    Widths are few in practice (powers of two). A job that left stays in its heap until it surfaces.
    """

    __slots__ = ("_heaps", "_keys", "_widths")

    def __init__(self) -> None:
        self._heaps: dict[int, list[tuple[Key, str, Job]]] = {}
        self._widths: list[int] = []
        self._keys: dict[str, Key] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._keys

    def add(self, job: Job, key: Key) -> None:
        """Add a job under a key that is unique together with its id; or give it another key."""
        self._keys[job.job_id] = key
        heap = self._heaps.get(job.num_gpus)
        if heap is None:
            heap = self._heaps[job.num_gpus] = []
            self._widths = sorted(self._heaps)
        heapq.heappush(heap, (key, job.job_id, job))

    def discard(self, job_id: str) -> None:
        """Take a job out, if it is in."""
        self._keys.pop(job_id, None)

    def best(self, max_gpus: int, without: Collection[int] = ()) -> Job | None:
        """The job with the smallest key among those of at most `max_gpus` GPUs; it stays in.

        Args:
            max_gpus: the widest that is wanted.
            without: widths that are not.
        """
        found: tuple[Key, str, Job] | None = None
        for width in self._widths:
            if width > max_gpus:
                break
            if width in without:
                continue
            top = self._top(self._heaps[width])
            if top is not None and (found is None or top < found):
                found = top
        return None if found is None else found[2]

    def _top(self, heap: list[tuple[Key, str, Job]]) -> tuple[Key, str, Job] | None:
        while heap:
            if self._keys.get(heap[0][1]) == heap[0][0]:
                return heap[0]
            heapq.heappop(heap)
        return None
