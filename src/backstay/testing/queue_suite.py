"""What queues promise, one test each; every backend passes them.

A backend proves itself with a fixture that gives empty queues:

    class TestMyQueues(QueueSuite):
        @pytest.fixture
        async def queues(self): ...

The tests are coroutines: they need pytest-asyncio in its auto mode.
"""

from __future__ import annotations

from backstay.testing.promises.bounds import BoundPromises
from backstay.testing.promises.deliveries import DeliveryPromises
from backstay.testing.promises.mailing import MailingPromises
from backstay.testing.promises.receiving import ReceivingPromises
from backstay.testing.promises.sessions import SessionPromises


class QueueSuite(MailingPromises, SessionPromises, DeliveryPromises, ReceivingPromises, BoundPromises):
    """Everything that queues promise."""
