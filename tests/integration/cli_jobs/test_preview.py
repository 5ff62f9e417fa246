"""``backstay jobs preview``: neither a store nor a server is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from backstay.cli import job_preview, run

NOW = ("--now", "2024-01-10T12:25:00Z")
EACH_DAY = {"frequency": "day", "schedule": {"hours": [5]}}


def job(start: str | None = None, **recurrence: Any) -> dict[str, Any]:
    return {"properties": {"startTime": start, "recurrence": recurrence or None, "action": {"type": "Http"}}}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "job.json"


def answer(file: Path, document: Any, capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    file.write_text(json.dumps(document))
    assert run(["jobs", "preview", "--file", str(file), "--json", *NOW, *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_one_document_gives_its_occurrences_and_a_sentence(file, capsys):
    found = answer(file, job("2024-01-10T12:25Z", **EACH_DAY), capsys, "--count", "2")

    assert found == {
        "occurrences": ["2024-01-11T05:25:00Z", "2024-01-12T05:25:00Z"],
        "description": "at 05:25 every day, from 2024-01-10 12:25 UTC",
    }


def test_a_list_gives_a_result_or_an_error_for_each_in_its_place(file, capsys):
    documents = [
        job("2024-01-10T12:25Z", **EACH_DAY, count=1),
        job(frequency="day", schedule={"weekDays": ["monday"]}),
        "nonsense",
        {"now": "2030-01-01T00:00:00+01:00", **job("2020-01-01", **EACH_DAY)},
        {"now": "later", **job()},
        job("2024-01-10", frequency="month", schedule={"months": [2], "monthDays": [30]}),
    ]

    results = answer(file, documents, capsys, "--count", "1")["results"]

    assert [one.get("occurrences", "refused") for one in results] == [
        ["2024-01-11T05:25:00Z"],
        "refused",
        "refused",
        ["2030-01-01T05:00:00Z"],
        "refused",
        "refused",
    ]
    assert "weekDays does not go with frequency day" in results[1]["error"]
    assert "the job is 'nonsense'" in results[2]["error"]
    assert "now is 'later'" in results[4]["error"]
    assert "matches no instant" in results[5]["error"]


def test_an_empty_list_has_no_results(file, capsys):
    assert answer(file, [], capsys) == {"results": []}


def test_ten_are_shown_unless_told_otherwise(file, capsys):
    assert len(answer(file, job(frequency="minute"), capsys)["occurrences"]) == 10
    assert len(answer(file, job(frequency="minute"), capsys, "--count", "1000")["occurrences"]) == 1000


def test_how_soon_a_job_runs_can_be_told(file, capsys):
    assert answer(file, job(), capsys, "--delay", "2m")["occurrences"] == ["2024-01-10T12:27:00Z"]


@pytest.mark.parametrize("arguments", [(), ("--file", "-")])
def test_standard_input_is_read_and_nothing_is_written(arguments, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "backstay", "jobs", "preview", *NOW, "--count", "1", *arguments],
        input=json.dumps(job("2024-01-10T12:25Z", frequency="week")),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout == "every week, from 2024-01-10 12:25 UTC\n  2024-01-10T12:25:00Z\n"
    assert list(tmp_path.iterdir()) == []


def test_a_job_whose_end_has_passed_is_said_never_to_run(file, capsys):
    file.write_text(json.dumps(job(frequency="day", endTime="2012-11-04")))

    assert run(["jobs", "preview", "--file", str(file), *NOW]) == 0
    shown = capsys.readouterr()
    assert shown.out == "immediately, then every day after each start, until 2012-11-04 00:00 UTC\n"
    assert "it never runs" in shown.err


@pytest.mark.parametrize(
    ("content", "arguments", "told"),
    [
        (
            json.dumps(job(frequency="day", interval=0)),
            (),
            "interval is 0; write a whole number between 1 and 1000",
        ),
        ('{"properties": {}', (), "write a job as in"),
        ("\udcff", (), "write a job as in"),
        ("[" * 100_000, (), "write a job as in"),
        ("{}", (), "properties is missing"),
        (json.dumps(job()), ("--now", "tomorrow"), "--now is 'tomorrow'; write an instant as in"),
        (json.dumps(job()), ("--count", "0"), "0 is out of range; ask for 1 to 1000"),
        (json.dumps(job()), ("--count", "1001"), "1001 is out of range; ask for 1 to 1000"),
        (json.dumps(job()), ("--delay", "soon"), "--delay is 'soon'"),
        (
            json.dumps([{}] * 1001),
            ("--count", "1000"),
            "1,001 documents with --count 1000 are more than 1,000,000",
        ),
    ],
)
def test_what_is_written_wrongly_ends_with_exit_code_2(content, arguments, told, file, capsys):
    file.write_text(content, errors="surrogateescape")

    assert run(["jobs", "preview", "--file", str(file), *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert told in " ".join(shown.err.split())


@pytest.mark.parametrize("name", ["absent.json", ".", "no\0path"])
def test_a_file_that_cannot_be_read_is_named(name, capsys):
    assert run(["jobs", "preview", "--file", name]) == 2
    assert "--file: it cannot be read" in capsys.readouterr().err


def test_a_file_that_is_too_large_is_refused(file, capsys, monkeypatch):
    monkeypatch.setattr(job_preview, "FILE_BYTES_MAX", 1_000)
    file.write_text(json.dumps([job()] * 100))

    assert run(["jobs", "preview", "--file", str(file)]) == 2
    assert "more than 1,000 bytes; split it" in " ".join(capsys.readouterr().err.split())
