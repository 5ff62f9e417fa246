"""Where a setting comes from, what it may be, and what a wrong one is told."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from backstay.errors import InvalidSetting
from backstay.settings import Settings


def load(
    options: dict[str, Any] | None = None, *, folder: Path, environment: dict[str, str] | None = None
) -> Settings:
    return Settings.load(options, environment=environment or {}, folder=folder)


def write(folder: Path, text: str | bytes) -> None:
    (folder / "backstay.toml").write_bytes(text.encode() if isinstance(text, str) else text)


def test_the_defaults_are_those_of_the_contract(tmp_path: Path):
    settings = load(folder=tmp_path)

    assert settings.store == "sqlite:///backstay.db"
    assert settings.store_connections == 4
    assert settings.accept_data_loss is False
    assert settings.agent_complete_by == timedelta(seconds=30)
    assert settings.workflow_complete_by == timedelta(minutes=10)
    assert settings.undo_complete_by == timedelta(minutes=5)
    assert (settings.lease, settings.heartbeat) == (timedelta(seconds=15), timedelta(seconds=5))
    assert settings.supervisor_period == timedelta(seconds=1)
    assert settings.in_flight == 4_000
    assert (settings.inline_bytes_max, settings.payload_bytes_max) == (16 * 1024, 1024 * 1024)


def test_an_option_wins_over_the_environment_which_wins_over_the_file(tmp_path: Path):
    write(tmp_path, 'lease = "60s"\nheartbeat = "6s"\nin_flight = 6\n')
    environment = {"BACKSTAY_HEARTBEAT": "7s", "BACKSTAY_IN_FLIGHT": "7", "OTHER_LEASE": "1s"}

    settings = load({"in_flight": 8}, folder=tmp_path, environment=environment)

    assert settings.lease == timedelta(seconds=60)
    assert settings.heartbeat == timedelta(seconds=7)
    assert settings.in_flight == 8


def test_an_option_that_is_none_was_not_given(tmp_path: Path):
    settings = load({"in_flight": None}, folder=tmp_path, environment={"BACKSTAY_IN_FLIGHT": "7"})

    assert settings.in_flight == 7


def test_without_a_file_there_is_nothing_to_read(tmp_path: Path):
    assert load(folder=tmp_path / "nowhere") == Settings()


def test_the_environment_of_the_process_counts_when_none_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BACKSTAY_IN_FLIGHT", "9")
    write(tmp_path, 'lease = "61s"\n')

    settings = Settings.load()

    assert (settings.in_flight, settings.lease) == (9, timedelta(seconds=61))


def test_settings_do_not_change(tmp_path: Path):
    settings = load(folder=tmp_path)

    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.in_flight = 1  # type: ignore[misc]


# A typo must not silently mean the default


def test_an_unknown_option_is_an_error_that_names_the_nearest(tmp_path: Path):
    with pytest.raises(InvalidSetting, match=r"no setting 'leese'; did you mean lease\?$"):
        load({"leese": "5s"}, folder=tmp_path)


def test_where_nothing_is_near_all_that_are_known_are_listed(tmp_path: Path):
    with pytest.raises(InvalidSetting, match=r"no setting 'zzz'; known: .*lease, log_format"):
        load({"zzz": "5s"}, folder=tmp_path)


def test_an_unknown_variable_is_an_error(tmp_path: Path):
    with pytest.raises(InvalidSetting, match=r"no setting 'leese' \(BACKSTAY_LEESE\); did you mean lease\?"):
        load(folder=tmp_path, environment={"BACKSTAY_LEESE": "5s"})


@pytest.mark.parametrize("text", ["leese = 5", "[scheduler]\nlease = '5s'"])
def test_an_unknown_key_in_the_file_is_an_error(tmp_path: Path, text: str):
    write(tmp_path, text)

    with pytest.raises(InvalidSetting, match=r"no setting '(leese|scheduler)' in backstay\.toml; "):
        load(folder=tmp_path)


def test_text_without_quotes_in_the_file_is_told_to_have_them(tmp_path: Path):
    write(tmp_path, "lease = 5s\n")

    with pytest.raises(InvalidSetting, match=r'^backstay\.toml: .*line 1.*quotes, as in lease = "15s"$'):
        load(folder=tmp_path)


@pytest.mark.parametrize("variable", ["BACKSTAY_URL", "BACKSTAY_TOKEN"])
def test_the_variables_of_the_command_line_are_not_settings(tmp_path: Path, variable: str):
    assert load(folder=tmp_path, environment={variable: "x"}) == Settings()


# What a wrong value is told


@pytest.mark.parametrize("value", ["soon", "5", "-5s", "", 5, 5.0, True, ["5s"]])
def test_a_time_is_a_duration_with_a_unit(tmp_path: Path, value: Any):
    with pytest.raises(InvalidSetting, match="undo_complete_by is"):
        load({"undo_complete_by": value}, folder=tmp_path)


@pytest.mark.parametrize("value", ["0s", timedelta(0), timedelta(seconds=-1), "101000d"])
def test_a_time_is_neither_nothing_nor_a_century(tmp_path: Path, value: Any):
    with pytest.raises(InvalidSetting, match=r"undo_complete_by is .* between 1ms and 100 years"):
        load({"undo_complete_by": value}, folder=tmp_path)


@pytest.mark.parametrize(
    "value", ["many", "", "1.5", 1.5, float("inf"), float("nan"), True, None.__class__, [1], "1e3"], ids=repr
)
def test_a_number_is_a_whole_number(tmp_path: Path, value: Any):
    with pytest.raises(InvalidSetting, match=r"in_flight is .*; it must be a whole number"):
        load({"in_flight": value}, folder=tmp_path)


@pytest.mark.parametrize("value", ["inf", "nan", "1.5", "true", "'many'", "[1]", "2030-01-01"])
def test_a_number_in_the_file_is_a_whole_number(tmp_path: Path, value: str):
    write(tmp_path, f"in_flight = {value}\n")

    with pytest.raises(InvalidSetting, match=r"in_flight is .*; it must be a whole number"):
        load(folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [
        ("store_connections", 0, 1),
        ("in_flight", 0, 1),
        ("journal_max", 0, 1),
        ("inline_bytes_max", -1, 0),
        ("payload_bytes_max", 1023, 1024),
        ("quarantine_max", 999, 1000),
    ],
)
def test_a_number_has_a_least_value(tmp_path: Path, name: str, value: int, least: int):
    with pytest.raises(InvalidSetting, match=f"{name} is {value}; it must be at least {least}"):
        load({name: value}, folder=tmp_path)


def test_a_number_may_be_written_as_text(tmp_path: Path):
    assert load({"in_flight": " 1_000 "}, folder=tmp_path).in_flight == 1_000


@pytest.mark.parametrize("value", ["8", 8, " 8 "])
def test_the_connections_to_the_store_are_a_number(tmp_path: Path, value: Any):
    assert load({"store_connections": value}, folder=tmp_path).store_connections == 8


@pytest.mark.parametrize(
    ("value", "truth"), [(True, True), (False, False), ("true", True), ("False", False), ("TRUE", True)]
)
def test_a_truth_is_true_or_false_however_it_is_written(tmp_path: Path, value: Any, truth: bool):
    assert load({"accept_data_loss": value}, folder=tmp_path).accept_data_loss is truth


def test_a_truth_may_come_from_the_environment(tmp_path: Path):
    settings = load(folder=tmp_path, environment={"BACKSTAY_ACCEPT_DATA_LOSS": "true"})

    assert settings.accept_data_loss is True


@pytest.mark.parametrize(("written", "truth"), [("true", True), ("false", False), ("'true'", True)])
def test_a_truth_may_come_from_the_file(tmp_path: Path, written: str, truth: bool):
    write(tmp_path, f"accept_data_loss = {written}\n")

    assert load(folder=tmp_path).accept_data_loss is truth


def test_a_truth_in_an_option_wins_even_when_it_is_false(tmp_path: Path):
    write(tmp_path, "accept_data_loss = true\n")
    environment = {"BACKSTAY_ACCEPT_DATA_LOSS": "true"}

    settings = load({"accept_data_loss": False}, folder=tmp_path, environment=environment)

    assert settings.accept_data_loss is False


@pytest.mark.parametrize("value", ["yes", "on", "1", "0", "", "t", " true", 1, 0, 1.0, ["true"]], ids=repr)
def test_what_is_neither_true_nor_false_is_no_truth(tmp_path: Path, value: Any):
    with pytest.raises(InvalidSetting, match=r"accept_data_loss is .*; it must be true or false"):
        load({"accept_data_loss": value}, folder=tmp_path)


@pytest.mark.parametrize("value", [5, ["sqlite:///x.db"], True])
def test_the_store_is_text(tmp_path: Path, value: Any):
    with pytest.raises(InvalidSetting, match=r"store is .*; it must be text"):
        load({"store": value}, folder=tmp_path)


# What must fit together


def test_a_missed_beat_must_not_cost_the_lease(tmp_path: Path):
    assert load({"heartbeat": "5s", "lease": "10s"}, folder=tmp_path).lease == timedelta(seconds=10)

    with pytest.raises(InvalidSetting, match="heartbeat 5s must fit twice into lease 9s"):
        load({"heartbeat": "5s", "lease": "9s"}, folder=tmp_path)


def test_what_is_kept_inline_is_no_larger_than_what_is_allowed(tmp_path: Path):
    with pytest.raises(
        InvalidSetting, match="inline_bytes_max 4,096 must not exceed payload_bytes_max 2,048"
    ):
        load({"inline_bytes_max": 4096, "payload_bytes_max": 2048}, folder=tmp_path)


# A file that cannot be read


@pytest.mark.parametrize("content", ["lease = ", "lease = 5s", b"store = '\xff'"])
def test_a_file_that_is_not_toml_is_an_error_that_names_it(tmp_path: Path, content: str | bytes):
    write(tmp_path, content)

    with pytest.raises(InvalidSetting, match=r"backstay\.toml"):
        load(folder=tmp_path)


def test_a_file_that_cannot_be_opened_is_an_error_that_names_it(tmp_path: Path):
    (tmp_path / "backstay.toml").mkdir()

    with pytest.raises(InvalidSetting, match=r"backstay\.toml"):
        load(folder=tmp_path)


# Which partitions


def test_partitions_are_balanced_unless_somebody_says_so(tmp_path: Path):
    assert load(folder=tmp_path).partition_assignment == "balanced"
    # Whatever the name of the host ends in.
    assert load(folder=tmp_path, environment={"HOSTNAME": "web-7"}).partition_assignment == "balanced"


@pytest.mark.parametrize(
    ("environment", "ordinal"),
    [
        ({"POD_NAME": "readers-2"}, 2),
        ({"HOSTNAME": "readers-1"}, 1),
        ({"POD_NAME": "readers-2", "HOSTNAME": "node-0"}, 2),
        ({"POD_NAME": "readers-2", "BACKSTAY_PARTITION_ORDINAL": "0"}, 0),
    ],
)
def test_a_static_member_is_numbered_by_its_pod(tmp_path: Path, environment: dict[str, str], ordinal: int):
    write(tmp_path, 'partition_assignment = "static"\npartition_members = 3\n')

    assert load(folder=tmp_path, environment=environment).partition_ordinal == ordinal


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"partition_assignment": "fair"}, "partition_assignment is 'fair'; it must be balanced or static"),
        ({"partition_assignment": "static"}, "needs the number of this member: .* or set partition_ordinal"),
        (
            {"partition_assignment": "static", "partition_members": 2, "partition_ordinal": 2},
            "partition_ordinal is 2, counted from 0; with partition_members 2 it must be at most 1",
        ),
        ({"partition_members": 0}, "partition_members is 0; it must be at least 1"),
        ({"partition_members": 2000}, "partition_members is 2000; it must be at most 1024"),
        ({"partition_ordinal": -1}, "partition_ordinal is -1; it must be at least 0"),
    ],
)
def test_an_assignment_that_cannot_be_is_refused(tmp_path: Path, options: dict[str, Any], told: str):
    with pytest.raises(InvalidSetting, match=told):
        load(options, folder=tmp_path)
