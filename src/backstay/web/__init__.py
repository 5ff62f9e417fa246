"""What whoever answers HTTP shares, be it for programs (``api``) or for people (``console``).

ports      what the composition hands in
access     who is let in
problems   what every error is called, and its status
bodies     the body of a request, no further than it may be long
paths      what is at a path
watchers   how many may watch
sampled    something in the store that is read now and then, however many ask for it
standings  how tasks, alerts and streams stood a moment ago
common     one of each for all doors of a process
"""
