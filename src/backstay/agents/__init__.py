"""Agents do the work of a step, each wrapping one remote service.

host      the agents of this process
inbox     requests of schedulers in other processes
counter   the slots of one agent, its breaker, and the line of those who wait
attempt   one attempt of one step: retries, the deadline, the reply or the silence
crew      the asyncio tasks in which attempts run
body      how a synchronous function is called: in a thread of its own
http      a ready agent for HTTP services: http_requests, http_client and http_answers are its parts
"""
