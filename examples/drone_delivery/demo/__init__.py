"""``backstay demo``: the whole application at once, under load, in bad weather, in a terminal.

show        the demo as a command: where its files are, what it prints, how it exits
course      what happens, in order: start, load, drain, reconcile
plan        what was asked for
ports       which ports everybody listens on
processes   the services and Backstay's own processes: started, killed, started again, stopped
leash       what makes each of them stop when nobody holds it any more
load        customers who hand in requests, and try again until they are accepted
weather     the services' fault dials: slow and failing a little, and down for ten seconds each minute
server      the application as the demo serves it, and dials, which puts the fault dials on its console
kills       ``kill -9`` to one of the processes, again and again
sight       what can be seen of the deliveries and agents over HTTP
scene       one moment of it
screen      that, live in the terminal; as plain lines where there is none
reconcile   the services' own books against what was accepted
"""
