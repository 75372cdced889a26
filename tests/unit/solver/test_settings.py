"""Settings of policies as texts."""

from dataclasses import dataclass
from enum import StrEnum

import pytest

from domain.errors import SettingError
from solver.policies.base import describe_settings, parse_settings, setting_text
from solver.policies.packing import PackingSettings


class Order(StrEnum):
    FIFO = "fifo"
    SHORTEST = "shortest"


@dataclass(frozen=True)
class Chosen:
    liss: bool = True
    lgrr: bool = False
    level: float = 0.5
    order: Order = Order.FIFO


@pytest.mark.parametrize(
    ("text", "value"), [("on", True), ("off", False), ("ON", True), ("true", True), ("False", False)]
)
def test_a_switch_is_on_or_off(text, value):
    assert parse_settings("p", Chosen, {"liss": text}).liss is value


@pytest.mark.parametrize("text", ["", "yes", "1", "on "])
def test_what_is_neither_on_nor_off_is_refused(text):
    with pytest.raises(SettingError, match=r"policy p: '.*' is neither on nor off"):
        parse_settings("p", Chosen, {"liss": text})


@pytest.mark.parametrize("name", ["least", "sigma"])
@pytest.mark.parametrize("text", ["nan", "-0.1", "1.1", "inf", "much"])
def test_a_share_of_packing_is_a_number_from_0_to_1(name, text):
    with pytest.raises(SettingError, match=f"policy packing: ({name} is|could not convert)"):
        parse_settings("packing", PackingSettings, {name: text})
    assert getattr(parse_settings("packing", PackingSettings, {name: "1"}), name) == 1.0


def test_a_default_is_told_as_it_is_written():
    told = {name: setting_text(value) for name, value in describe_settings(Chosen).items()}
    assert told == {"liss": "on", "lgrr": "off", "level": "0.5", "order": "fifo"}
    assert parse_settings("p", Chosen, told) == Chosen()
