"""The order in which pods arrive in FGD's published openb runs, to the pod.

The authors' simulator is written in Go: it seeds math/rand with the run's seed, draws one number, shuffles
the pods (sorted by name) and adds pods drawn with replacement until the GPU load reaches the target. Go's
generator is the additive lagged Fibonacci generator of Mitchell and Reeds, x[n] = x[n-607] + x[n-273] modulo
2**64. Go seeds it with a linear congruential generator, mixed with a table that is the state of the same
generator after 7.8e12 steps. We jump there by powers of x modulo the generator's polynomial, so that nothing
needs to be copied; the published allocation below the first failure confirms every draw (`openb.py` checks).
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

LONG, SHORT = 607, 273
WARM_UP_STEPS = 7_800_000_000_000
MODULUS = 2**31 - 1
MASK = 2**64 - 1

Words = npt.NDArray[np.uint64]


def _congruential(x: int) -> int:
    return 48271 * x % MODULUS


def _seed_words(seed: int, shift: int) -> list[int]:
    x = seed % MODULUS or 89482311
    for _ in range(20):
        x = _congruential(x)
    words = []
    for _ in range(LONG):
        x = _congruential(x)
        word = x << 2 * shift
        x = _congruential(x)
        word ^= x << shift
        x = _congruential(x)
        words.append((word ^ x) & MASK)
    return words


def _times(a: Words, b: Words) -> Words:
    """Product modulo x**607 = 1 + x**334, coefficients modulo 2**64."""
    product = np.convolve(a, b)
    for power in range(len(product) - 1, LONG - 1, -1):
        at = [power - LONG, power - SHORT]
        product[at] += product[power]
    return product[:LONG]


@cache
def _table() -> tuple[int, ...]:
    """State after the warm-up steps, by slot."""
    slots = _seed_words(1, 10)
    outputs = np.array([slots[(LONG - SHORT - step) % LONG] for step in range(1, LONG + 1)], dtype=np.uint64)
    outputs = np.concatenate((outputs, np.zeros(LONG, dtype=np.uint64)))
    for step in range(LONG, 2 * LONG):
        outputs[step] = outputs[step - LONG] + outputs[step - SHORT]
    jump, power = np.eye(2, LONG, dtype=np.uint64)
    steps = WARM_UP_STEPS
    while steps:
        if steps & 1:
            jump = _times(jump, power)
        power = _times(power, power)
        steps >>= 1
    table = [0] * LONG
    for i in range(LONG):
        step = WARM_UP_STEPS - LONG + 1 + i
        table[(LONG - SHORT - step) % LONG] = int((jump * outputs[i : i + LONG]).sum())
    return tuple(table)


class GoRandom:
    """math/rand of Go, as far as the draws below need it."""

    def __init__(self, seed: int) -> None:
        self._slots = [a ^ b for a, b in zip(_seed_words(seed, 20), _table(), strict=True)]
        self._short, self._long = 0, LONG - SHORT

    def int63(self) -> int:
        self._short = (self._short - 1) % LONG
        self._long = (self._long - 1) % LONG
        self._slots[self._long] = (self._slots[self._long] + self._slots[self._short]) & MASK
        return self._slots[self._long] & (MASK >> 1)

    def below(self, n: int) -> int:
        """Intn."""
        if n & (n - 1) == 0:
            return (self.int63() >> 32) & (n - 1)
        most = MODULUS - 2**31 % n
        drawn = self.int63() >> 32
        while drawn > most:
            drawn = self.int63() >> 32
        return drawn % n

    def shuffle(self, items: list[int]) -> None:
        """Shuffle, with Lemire's bounded draw."""
        for i in range(len(items) - 1, 0, -1):
            product = (self.int63() >> 31) * (i + 1)
            while product & 0xFFFFFFFF < (2**32 - i - 1) % (i + 1):
                product = (self.int63() >> 31) * (i + 1)
            j = product >> 32
            items[i], items[j] = items[j], items[i]

    def permutation(self, n: int) -> list[int]:
        """Perm."""
        places = [0] * n
        for i in range(n):
            j = self.below(i + 1)
            places[i] = places[j]
            places[j] = i
        return places


def arrivals(
    gpu_milli: Sequence[int], num_gpus: Sequence[int], target_milli: float, seed: int, num_nodes: int
) -> tuple[list[int], list[int]]:
    """Which pods arrive, in order, and the place of each node in the order in which it is listed.

    Args:
        gpu_milli: share of each GPU of each pod, in the order of the pods' names.
        num_gpus: GPUs of each pod.
        target_milli: GPU load at which arrivals end.
        seed: of the run.
        num_nodes: nodes, in the order of their names.
    """
    random = GoRandom(seed)
    random.int63()
    pods = list(range(len(gpu_milli)))
    random.shuffle(pods)
    asked = [milli * num for milli, num in zip(gpu_milli, num_gpus, strict=True)]
    load = sum(asked)
    while load > target_milli:
        load -= asked[pods.pop(random.below(len(pods)))]
    pruned = len(pods) < len(asked)
    while not pruned:
        pod = random.below(len(asked))
        if load + gpu_milli[pod] > target_milli:
            break
        load += asked[pod]
        pods.append(pod)
    return pods, random.permutation(num_nodes)
