"""The scheduler moves every task forward.

loop           claims tasks, starts their runs, tells them what happened elsewhere
run            one task on its way forward: replay, then live
undoing        one task on its way back
workflow_loop  the event loop that a workflow's code lives in: exact and repeatable
dispatch       steps: a slot, a durable record, the request, the reply
waits          sleeps, signals and children
ledger         what a run knows of its task, and what it has not written yet
services       what a run is given to work with
"""
