"""Where MIG slices may lie on a GPU: the legal start indices of every profile, as NVIDIA lists them.

A partitioned GPU has so many memory slices (8, or 4 on an A30). A profile covers a stretch of them that may
begin at certain indices only; different profiles may be mixed as long as their stretches do not overlap.
Source: NVIDIA Multi-Instance GPU User Guide, "Supported MIG Profiles", and what `nvidia-smi mig -lgipp`
prints on each card. What lies where is a bit mask of busy memory slices, bit i for slice i.

A slice counts as its share of the memory slices: 1g.5gb is 125 thousandths of an A100. Seven of them fill its
compute and leave one memory slice that no profile can reach.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from domain.errors import SettingError

_NUM_MASKS: Final = 256


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile on one kind of GPU.

    Attributes:
        name: as NVIDIA writes it, e.g. "3g.20gb".
        memory_slices: length of the stretch it covers.
        starts: memory slices at which the stretch may begin.
    """

    name: str
    memory_slices: int
    starts: tuple[int, ...]

    def bits(self, start: int) -> int:
        """Mask of the memory slices it covers when it begins at `start`."""
        return ((1 << self.memory_slices) - 1) << start


@dataclass(frozen=True, slots=True)
class Geometry:
    """What a kind of GPU can be cut into.

    Attributes:
        gpu_type: name of the GPU type, as nodes carry it.
        memory_slices: how many there are.
        profiles: what may be asked for.
    """

    gpu_type: str
    memory_slices: int
    profiles: tuple[Profile, ...]


def _seven(gpu_type: str, unit_gb: int) -> Geometry:
    """An A100 or H100: 7 compute and 8 memory slices, each of `unit_gb`."""
    shapes = (
        (1, 1, (0, 1, 2, 3, 4, 5, 6)),
        (1, 2, (0, 2, 4, 6)),
        (2, 2, (0, 2, 4)),
        (3, 4, (0, 4)),
        (4, 4, (0,)),
        (7, 8, (0,)),
    )
    profiles = (Profile(f"{c}g.{m * unit_gb}gb", m, starts) for c, m, starts in shapes)
    return Geometry(gpu_type, 8, tuple(profiles))


GEOMETRIES: Final = (
    _seven("A100-40GB", 5),
    _seven("A100-80GB", 10),
    _seven("H100-80GB", 10),
    Geometry(
        "A30-24GB",
        4,
        (Profile("1g.6gb", 1, (0, 1, 2, 3)), Profile("2g.12gb", 2, (0, 2)), Profile("4g.24gb", 4, (0,))),
    ),
)
PROFILE_NAMES: Final = tuple(sorted({profile.name for one in GEOMETRIES for profile in one.profiles}))
"""All profiles that exist; a profile's place in this list is its code in arrays."""


def geometry_code(gpu_type: str) -> int:
    """Place of a GPU type in `GEOMETRIES`; -1 for one that cannot be partitioned."""
    return next((code for code, one in enumerate(GEOMETRIES) if one.gpu_type == gpu_type), -1)


def profile_code(name: str) -> int:
    """Place of a profile in `PROFILE_NAMES`.

    Raises:
        SettingError: if no GPU that we know has such a profile.
    """
    if name not in PROFILE_NAMES:
        raise SettingError(f"MIG profile {name!r} does not exist; known are {', '.join(PROFILE_NAMES)}")
    return PROFILE_NAMES.index(name)


def profile_on(geometry: int, profile: int) -> Profile | None:
    """The profile with this code on the GPUs with that geometry code; None where they lack it."""
    name = PROFILE_NAMES[profile]
    return next((one for one in GEOMETRIES[geometry].profiles if one.name == name), None)


def share_milli(profile: int) -> int:
    """Share of a GPU that a profile is, in thousandths: of the first kind of GPU in the list that has it."""
    shapes = ((one, profile_on(code, profile)) for code, one in enumerate(GEOMETRIES))
    return next(1000 * shape.memory_slices // one.memory_slices for one, shape in shapes if shape is not None)


def empty_mask(geometry: int) -> int:
    """Busy mask of a partitioned GPU that holds nothing: bits of slices that it lacks are busy for ever."""
    return (_NUM_MASKS - 1) & ~((1 << GEOMETRIES[geometry].memory_slices) - 1)


class Spot(NamedTuple):
    """A legal place for a slice: where it begins, and what is busy once it is there."""

    start: int
    mask: int


def legal_spots(geometry: int, profile: int, mask: int) -> tuple[Spot, ...]:
    """Where the profile can begin on a GPU whose busy slices are `mask`; empty where it cannot."""
    shape = profile_on(geometry, profile)
    if shape is None:
        return ()
    return tuple(
        Spot(start, mask | shape.bits(start)) for start in shape.starts if not mask & shape.bits(start)
    )


def _fits() -> npt.NDArray[np.bool_]:
    table = np.zeros((len(PROFILE_NAMES), len(GEOMETRIES) + 1, _NUM_MASKS), dtype=np.bool_)
    for profile in range(len(PROFILE_NAMES)):
        for geometry in range(len(GEOMETRIES)):
            for mask in range(_NUM_MASKS):
                table[profile, geometry, mask] = bool(legal_spots(geometry, profile, mask))
    return table


def _free_milli() -> npt.NDArray[np.int64]:
    return np.array(
        [
            [1000 * (8 - mask.bit_count()) // one.memory_slices for mask in range(_NUM_MASKS)]
            for one in GEOMETRIES
        ]
    )


FITS: Final = _fits()
"""Whether a profile fits: (profiles, geometries + 1, 256 masks); the last geometry, -1, is none at all."""

FREE_MILLI: Final = _free_milli()
"""Free memory slices in thousandths of the GPU; (geometries, 256 masks). Lacking slices count as busy."""
