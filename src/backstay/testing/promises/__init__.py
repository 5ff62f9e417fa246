"""The store's promises by theme, one test each.

submission    what was acknowledged is there, once
claims        every task has at most one holder
transitions   what a holder writes, and what of it is refused
arrows        the two state machines, kept by the database itself
instances     the living, the dead, and what the dead held
expiry        wake-ups and missed complete-bys
leadership    one supervisor leads, and nobody else writes as it may
rounds        what a supervisor finds to do, counts, holds back and keeps
operator      moves by hand
waiting       signals, and the gap before a task is parked
children      tasks that a task started
payloads      values too large for a row
listing       pages of tasks
listeners     who is told of a commit
controls      workflows and agents that are held back
alerts        what a person is called for, until somebody takes it up
requests      what agents in other processes are asked, and reply
records       the audit trail, tokens, idempotency keys
mailing       messages that are sent: once, in order, to queues and topics
sessions      messages that come one after the other
deliveries    messages that are received: by one at a time, until they are settled
receiving     messages that are received in other ways: at most once, or by their numbers
bounds        queues that are full, emptied or deleted
queue_alerts  who is called for when a queue is in trouble
holding       partitions that one reads for a group at a time
advancing     what readers made of events, and how far they have got
bridging      messages that they made of events, once each
quarantine    events that they set aside
collecting    collections of jobs, as they were decided
job_keeping   jobs, as they were decided
job_firing    instants that are due, and start one task each
job_history   what became of occurrences, and the end of a job
appending     events that are appended: once, in the partition of their key
reading       events that are read, as often as anybody likes
pruning       tasks and alerts that are forgotten, and what keeps them
retention     events that are forgotten: the oldest, behind everybody who reads
leader_verbs  what only the leader may do, one function a verb
holder        a scheduler as far as a store can see one: what the tests act through
mail          the same for queues: a sender and a receiver
feed          the same for logs: a producer and a reader
readers       the same for groups
calendar      the same for jobs
"""
