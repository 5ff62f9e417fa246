"""The composition root: opens the store, wires the roles together, and runs them.

stores     which store a URL names, and a client on it
roles      what a process can be
instance   one life of the roles of a process: from registering to retiring, or to being declared dead
running    the roles inside this process, one instance after the other
interpreter  how Python itself is set while they run
once       one round of the supervisor, for cron or a job
backup     copies of a live store, and of the streams beside it
pruning    what a person has forgotten by hand
http       the HTTP interface: a socket, and a server that answers on it
protocol, fast_lane  HTTP/1.1 on one connection, and the short way through it
lifespans  what mounted applications do before the first request and after the last
open_files   how many of them the interface may have, and so how many connections
server     a process that serves until it is told to stop

Nothing else in the package knows of two roles at once. The last six are not imported from here: who runs
an application in a script needs no HTTP server.
"""

from backstay.runtime.once import supervise_once, tell_test_alert
from backstay.runtime.roles import Role, Roles, parse_roles
from backstay.runtime.running import Running
from backstay.runtime.stores import StoreClock, connected, open_store

__all__ = [
    "Role",
    "Roles",
    "Running",
    "StoreClock",
    "connected",
    "open_store",
    "parse_roles",
    "supervise_once",
    "tell_test_alert",
]
