"""Step keys by branch; what was recorded, in which order."""

from __future__ import annotations

import pytest

from backstay.domain.journal import Branch, Journal
from backstay.domain.states import StepState
from backstay.domain.step import StepKind, StepRecord
from backstay.errors import JournalMismatch
from backstay.testing.records import BROKEN, a_step, a_wait


def done(key: str, position: int, **fields: object) -> StepRecord:
    return a_step(StepState.COMPLETED, key=key, position=position, **fields)


# Branches


def test_calls_of_one_name_are_counted_from_one():
    branch = Branch()

    assert [branch.key("charge"), branch.key("ship"), branch.key("charge")] == [
        "charge:1",
        "ship:1",
        "charge:2",
    ]


def test_a_branch_is_numbered_where_it_is_created_and_counts_for_itself():
    workflow = Branch()
    first, second = workflow.child(), workflow.child()
    grandchild = second.child()

    assert first.key("charge") == "1.charge:1"
    assert second.key("charge") == "2.charge:1"
    assert grandchild.key("charge") == "2.1.charge:1"
    assert workflow.key("charge") == "charge:1"


def test_two_gathered_sequences_that_call_the_same_steps_never_mix():
    one, two = Branch().child(), Branch("2.")

    interleaved = [one.key("a"), two.key("a"), two.key("a"), one.key("a")]

    assert interleaved == ["1.a:1", "2.a:1", "2.a:2", "1.a:2"]


# Claiming what was recorded


def test_a_call_that_was_recorded_finds_its_entry():
    entry = a_step(key="charge:1")

    assert Journal([entry]).claim("charge:1", operation="charge", input=b"[]") is entry


def test_a_call_that_was_not_recorded_finds_nothing():
    assert Journal([]).claim("charge:1", operation="charge", input=b"[]") is None


def test_another_operation_under_the_same_key_is_a_mismatch_that_names_both():
    journal = Journal([a_step(key="charge:1", operation="charge")])

    with pytest.raises(
        JournalMismatch, match="step 'charge:1': the journal has 'charge' here, the workflow called 'refund'"
    ):
        journal.claim("charge:1", operation="refund", input=b"[]")


def test_another_input_is_a_mismatch():
    journal = Journal([a_step(key="charge:1", input=b"[1]")])

    with pytest.raises(JournalMismatch, match="another input"):
        journal.claim("charge:1", operation="charge", input=b"[2]")


def test_a_planned_step_takes_whatever_input_its_first_call_brings():
    planned = a_step(StepState.PENDING, key="charge:1", input=None)

    assert Journal([planned]).claim("charge:1", operation="charge", input=b"[2]") is planned


# Delivering in the recorded order


def test_results_are_delivered_in_the_order_in_which_they_were_recorded():
    journal = Journal([done("a:1", 3), done("b:1", 1), a_step(StepState.RUNNING, key="c:1"), done("d:1", 2)])

    delivered = []
    while (entry := journal.next_delivery()) is not None:
        delivered.append(entry.key)
        journal.delivered()

    assert delivered == ["b:1", "d:1", "a:1"]


def test_a_failure_that_the_workflow_was_given_is_delivered_like_a_result():
    journal = Journal([a_step(StepState.FAILED, key="a:1", position=1, error=BROKEN), done("b:1", 2)])

    assert journal.next_delivery() is journal.entries["a:1"]


def test_a_failure_that_the_workflow_was_not_given_is_not():
    assert Journal([a_step(StepState.FAILED, key="a:1")]).next_delivery() is None


def test_a_value_is_found_by_its_call_and_delivered_to_nobody():
    value = a_wait(StepKind.VALUE, "now:1", state=StepState.COMPLETED, output=b"1", position=1)

    journal = Journal([value, done("charge:1", 2)])

    assert journal.next_delivery() is journal.entries["charge:1"]
    assert journal.claim("now:1", operation="now", input=b"null") is value


def test_an_entry_stays_next_until_it_was_delivered():
    journal = Journal([done("a:1", 1)])

    assert journal.next_delivery() is journal.next_delivery()


# When the replay is over


def test_a_journal_that_was_called_in_full_is_in_order():
    journal = Journal([done("charge:1", 1)])
    journal.claim("charge:1", operation="charge", input=b"[]")

    journal.check_all_called()


def test_something_recorded_that_is_no_longer_called_is_a_mismatch_that_names_the_first_of_them():
    journal = Journal([done("charge:1", 2), done("ship:1", 1, operation="ship")])

    with pytest.raises(
        JournalMismatch, match="step 'ship:1': the journal has it, but the workflow no longer calls it"
    ):
        journal.check_all_called()


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(
            a_wait(StepKind.VALUE, "now:1", state=StepState.COMPLETED, output=b"1", position=1), id="a value"
        ),
        pytest.param(a_step(StepState.PENDING, input=None), id="a planned step that was never called"),
    ],
)
def test_some_entries_may_stay_uncalled(entry: StepRecord):
    Journal([entry]).check_all_called()


@pytest.mark.parametrize("kind", [StepKind.SLEEP, StepKind.SIGNAL, StepKind.CHILD])
def test_an_open_wait_must_be_called_again(kind: StepKind):
    with pytest.raises(JournalMismatch):
        Journal([a_wait(kind, "wait:1")]).check_all_called()


def test_a_workflow_that_ends_before_a_recorded_result_was_delivered_is_a_mismatch():
    journal = Journal([done("charge:1", 1)])
    journal.claim("charge:1", operation="charge", input=b"[]")

    with pytest.raises(JournalMismatch, match="the journal has its result, but the workflow ended before it"):
        journal.check_over()
    journal.delivered()
    journal.check_over()
