"""What the registry of trained models holds: the model in use, and documents about all of them."""

from dataclasses import asdict
from typing import Any

from app.services.demand_learner import STORED_DEMAND
from app.services.learners import LIFETIME_STORES
from models.artifacts import ArtifactError, Manifest, Rule
from models.artifacts.registry import Registry, Version
from models.demand.state import STORE as DEMAND


def in_use(registry: Registry, data: str, kind: str) -> tuple[Any, Manifest]:
    """The model in use, put together, told everything until `manifest.training.until_s`; and what it is.

    Raises:
        ArtifactError: if there is none, it is damaged, or it is of another version of the program.
    """
    stored = registry.load(data, kind)
    manifest = stored.manifest
    stores = {"lifetime": LIFETIME_STORES, "demand": dict.fromkeys(STORED_DEMAND, DEMAND)}
    store = stores.get(kind, {}).get(manifest.name)
    if store is None:
        raise ArtifactError(manifest.name, Rule.BAD_NAME, f"no {kind} model of that name is known")
    return store.revive(stored), manifest


def listed(registry: Registry, data: str, kind: str) -> dict[str, Any]:
    """What is stored of one kind for one cluster or data set, as a document.

    Raises:
        ArtifactError: if the file that names the model in use is damaged.
    """
    line = registry.line(data, kind)
    return {
        "data": data,
        "kind": kind,
        "champion": line.champion,
        "versions": [_version(one) for one in registry.versions(data, kind)],
        "decisions": [asdict(one) for one in line.decisions],
    }


def _version(one: Version) -> dict[str, Any]:
    if one.manifest is None:
        return {"number": one.number, "fault": one.fault}
    about = one.manifest
    return {
        "number": one.number,
        "fault": None,
        "name": about.name,
        "created": about.created,
        **asdict(about.training),
        "seed": about.seed,
        "settings": dict(about.settings),
        "scores": dict(about.scores),
    }
