"""What a test of an application, or of a store, needs. It needs pytest itself.

stepped         an application on a store of its own, whose time the test lets pass
ManualClock     time that moves when the test says so
StoreSuite      the store's promises, one test each; every backend passes it
QueueSuite      the same of queues
LogSuite        the same of logs, which streams are in
records         well-formed tasks and steps in every state
promises        the parts of the suite
"""

from backstay.testing.by_hand import Platform, stepped
from backstay.testing.clock import ManualClock
from backstay.testing.log_suite import LogSuite
from backstay.testing.queue_suite import QueueSuite
from backstay.testing.store_suite import StoreSuite

__all__ = ["LogSuite", "ManualClock", "Platform", "QueueSuite", "StoreSuite", "stepped"]
