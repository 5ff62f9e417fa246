"""The work of ``bench.five_steps`` and ``bench.queues`` done by other systems, with their own defaults.

catalogue    which systems, in which versions, and what each promises to keep over a crash
environment  a virtual environment for each, made once
processes    a command whose lines are read here, and which ends with us
leash        what makes its processes and files go when nobody holds it any more
programs     what runs inside the environments: starts the system, measures it, prints a line per point
run          ``measure_peers``: all of it, one row per system and point
"""
