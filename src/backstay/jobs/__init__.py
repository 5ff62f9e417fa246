"""Where the calendar comes in: jobs whose instant has come become tasks, which do their actions.

ticker           starts what is due; any number of them may run, and none leads
pruner           deletes what has been over for long
role             both of them, in one process
occurrence       the workflow ``backstay.job``: attempts, pauses between them, the action after a failure
acting           one attempt: what it does, and that it is in the history
http_request     what a request of a job says, and where a redirect leads
certificates     the certificate that a request shows
oauth            tokens that requests bear: asked for, kept a while, forgotten
http_action      sends it, in bounded time and memory
workflow_action  starts a task
queue_action     sends to a queue or topic, Backstay's own
service_bus_action    sends to one of Azure Service Bus
storage_queue_action  sends to a queue of Azure Storage

    ticker ── due, fire ──▶ store ──▶ scheduler ── runs ──▶ occurrence ── step ──▶ acting ── record ──▶ store

The ticker runs with the role ``jobs``; occurrences run wherever there are a scheduler and agents.
"""
