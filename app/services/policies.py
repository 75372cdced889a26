"""Which policies a live cluster may have, and with which settings."""

from collections.abc import Mapping

from domain.errors import ClairvoyanceError, SettingError


def check_policy(policy: str, settings: Mapping[str, str], *, is_live: bool = True) -> None:
    """Refuse what no policy could be built from.

    Args:
        policy: name in the registry.
        settings: of it and of its forecasts.
        is_live: whether it is to decide; else it is only replayed.

    Raises:
        SettingError: for an unknown or clairvoyant policy, one that needs measured pairs, an unknown setting
            or a value it refuses, and for a setting that means something in replays only.
    """
    # Forecasts and solvers bring numpy, scipy and LightGBM along: whoever only reads does not pay for them.
    from simulator.forecasting import choose, split_settings  # noqa: PLC0415
    from solver.policies import POLICIES  # noqa: PLC0415
    from solver.policies.base import parse_settings  # noqa: PLC0415

    spec = POLICIES.get(policy)
    live = ", ".join(name for name, one in POLICIES.items() if not (one.is_clairvoyant or one.packs))
    if spec is None:
        raise SettingError(f"there is no policy {policy!r}; there are: {live}")
    if spec.is_clairvoyant:
        raise SettingError(
            f"policy {policy} has to know the future, a live cluster does not; there are: {live}"
        )
    common, own = split_settings(settings)
    try:
        choose(policy, spec, common, may_see_truth=False)
    except ClairvoyanceError as error:
        raise SettingError(
            f"policy {policy}: the truth is not known yet; choose a model that learns"
        ) from error
    in_force = parse_settings(policy, spec.settings, own)
    if spec.packs or getattr(in_force, "packing", False):
        raise SettingError(
            f"policy {policy} lets jobs share GPUs by a table of measured pairs, of which the service has "
            f"none: replay it with `antecast replay --pairs`; there are: {live}"
        )
    if is_live and getattr(in_force, "reclaim_s", 0.0) > 0.0:
        raise SettingError("reclaim_s is for replays: live, GPUs are free when whoever has them says so")
