"""What the documentation draws is what the code says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from backstay.domain.states import STEP_ARROWS, TASK_ARROWS
from tools import picture, state_machines

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_of_state_machines_is_current():
    page = state_machines.PAGE.read_text(encoding="utf-8")

    assert page == state_machines.drawn_into(page), "run `make diagrams`"


@pytest.mark.parametrize("arrows", [TASK_ARROWS, STEP_ARROWS], ids=["task", "step"])
def test_a_diagram_has_every_arrow_of_its_table_and_no_other(arrows: Mapping[Any, frozenset[Any]]):
    lines = state_machines.mermaid(arrows).splitlines()
    drawn = {tuple(line.split()) for line in lines if "-->" in line and "[*]" not in line}

    assert drawn == {(source, "-->", target) for source in arrows for target in arrows[source]}


def test_the_picture_shows_every_layer_that_exists_and_no_arrow_that_climbs():
    name, layers = picture.read_layers(ROOT / "pyproject.toml")
    package = picture.survey(name, layers)
    drawing = ET.fromstring(picture.draw(package))

    names = {text.text for text in drawing.iter() if text.get("class") == "name"}
    assert {"cli", "scheduler", "agents", "supervisor", "store", "domain"} <= names
    assert package.climbing == frozenset()


def test_the_picture_tells_a_climbing_arrow_from_an_implied_one():
    boxes = {name: picture.Box(name, layer, ()) for layer, name in enumerate(("top", "middle", "bottom"))}
    down = {("top", "middle"), ("middle", "bottom"), ("top", "bottom")}
    package = picture.Package(boxes, frozenset({*down, ("bottom", "top")}))

    assert package.climbing == {("bottom", "top")}
    assert package.implied == {("top", "bottom")}
    assert 'class="arrow climbs"' in picture.draw(package)
