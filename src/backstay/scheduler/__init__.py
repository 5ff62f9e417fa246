"""The scheduler moves every task forward.

loop           claims tasks, starts their runs, tells them what happened elsewhere
run            one task on its way forward: its turns, what it writes, how it ends
deliveries     what the workflow called, and what it is given back: replay, then live
ending         how a run ends, and what that makes of its task's records
undoing        one task on its way back
workflow_loop  the event loop that a workflow's code lives in: exact and repeatable
calls          what a workflow's code reaches when it calls a step, sleeps, waits or starts a child
step_call      a call of a step, and what is known of it while it goes straight to its end
dispatch       steps: a slot, a durable record, the request, the reply
waits          sleeps, signals and children
mailbox        the way to agents in other processes, through the store
lines          who stands in line for them
ledger         what a run knows of its task, and what it has not written yet
unanswered     transitions that the store has not answered yet
services       what a run is given to work with
"""
