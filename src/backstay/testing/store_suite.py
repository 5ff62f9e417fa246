"""The store's promises, one test each; every backend passes them.

A backend proves itself with a fixture that opens an empty store and closes it again:

    class TestMyStore(StoreSuite):
        @pytest.fixture
        async def store(self):
            store = MyStore(...)
            await store.open()
            yield store
            await store.close()

The tests are coroutines: they need pytest-asyncio in its auto mode.
"""

from __future__ import annotations

from backstay.testing.promises.accepting import AcceptPromises
from backstay.testing.promises.advancing import AdvancePromises
from backstay.testing.promises.alerts import AlertPromises
from backstay.testing.promises.arrows import ArrowPromises
from backstay.testing.promises.bridging import BridgePromises
from backstay.testing.promises.children import ChildPromises
from backstay.testing.promises.claims import ClaimPromises
from backstay.testing.promises.collecting import CollectingPromises
from backstay.testing.promises.controls import ControlPromises
from backstay.testing.promises.expiry import ExpiryPromises
from backstay.testing.promises.holding import HoldingPromises
from backstay.testing.promises.instances import InstancePromises
from backstay.testing.promises.job_firing import JobFiringPromises
from backstay.testing.promises.job_history import JobHistoryPromises
from backstay.testing.promises.job_keeping import JobKeepingPromises
from backstay.testing.promises.leadership import LeadershipPromises
from backstay.testing.promises.listeners import ListenerPromises
from backstay.testing.promises.listing import ListingPromises
from backstay.testing.promises.membership import MembershipPromises
from backstay.testing.promises.operator import OperatorPromises
from backstay.testing.promises.payloads import PayloadPromises
from backstay.testing.promises.pruning import PruningPromises
from backstay.testing.promises.quarantine import QuarantinePromises
from backstay.testing.promises.queue_alerts import QueueAlertPromises
from backstay.testing.promises.records import RecordPromises
from backstay.testing.promises.requests import RequestPromises
from backstay.testing.promises.rounds import RoundPromises
from backstay.testing.promises.statuses import StatusPromises
from backstay.testing.promises.submission import SubmissionPromises
from backstay.testing.promises.telling import TellingPromises
from backstay.testing.promises.transitions import TransitionPromises
from backstay.testing.promises.waiting import WaitingPromises


class StoreSuite(
    SubmissionPromises,
    ClaimPromises,
    TransitionPromises,
    ArrowPromises,
    InstancePromises,
    ExpiryPromises,
    LeadershipPromises,
    RoundPromises,
    OperatorPromises,
    WaitingPromises,
    ChildPromises,
    PayloadPromises,
    ListingPromises,
    ListenerPromises,
    ControlPromises,
    AlertPromises,
    QueueAlertPromises,
    TellingPromises,
    RecordPromises,
    StatusPromises,
    AcceptPromises,
    RequestPromises,
    HoldingPromises,
    MembershipPromises,
    AdvancePromises,
    BridgePromises,
    QuarantinePromises,
    CollectingPromises,
    JobKeepingPromises,
    JobFiringPromises,
    JobHistoryPromises,
    PruningPromises,
):
    """Everything that a state store promises."""
