"""Rules without I/O, clock or asyncio: data in, decisions out.

states      the two machines: which state may follow which
durations   "5s" and friends
task, step  the records that the store keeps
journal     step keys by branch; what was recorded, in which order
retry       how long an agent waits before it tries again
breaker     when an agent stops calling a service, and when it asks again
pace        how many calls an agent makes at once, by how its service fares
recovery    what happens after an attempt, or a run, failed
undo        which steps are undone, in which order, and when each may start
lease       when an instance counts as dead
recurrence  when a job runs: calendar arithmetic, and the same as an English sentence
why         one sentence about what a task waits for
"""
