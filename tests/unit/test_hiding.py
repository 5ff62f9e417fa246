"""Secrets are taken out of what others said, and so is the half of one that a cut left."""

from __future__ import annotations

import pytest

from backstay.domain.hiding import without

SECRETS = ("hunter2", "hunter2-and-more", "grüezi")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("you said hunter2", "you said [hidden]"),
        ("hunter2hunter2", "[hidden][hidden]"),
        ("hunter2-and-more", "[hidden]"),
        ("you said hunt", "you said hunt"),
        ("", ""),
    ],
)
def test_every_secret_is_hidden_the_longest_first(text: str, left: str):
    assert without(text, SECRETS) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("you said hunt", "you said [hidden]"),
        ("you said hunter2-and-m", "you said [hidden]"),
        ("hunter2 hunter", "[hidden] [hidden]"),
        ("hunter", "[hidden]"),
        ("you said grüez\ufffd", "you said [hidden]"),
        ("you said hun", "you said hun"),
        ("you said nothing", "you said nothing"),
        ("", ""),
    ],
)
def test_of_a_text_that_was_cut_half_a_secret_at_its_end_is_hidden_too(text: str, left: str):
    assert without(text, SECRETS, is_whole=False) == left
