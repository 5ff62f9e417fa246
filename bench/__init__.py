"""Measurements: ``python -m bench --help`` lists them.

command      the arguments, one bench after the other, the result
catalogue    the benches by name; each is a small module with a ``measure``
conditions   what the figures were measured on
databases    where the stores are that a bench fills
bulk         rows in bulk, through the real schema
load         clients that submit, each in a fresh event loop
openloop/    requests over HTTP that come when they are due, whether or not the ones before were answered
streaming/   the events, the servers and the reckoning of the benches of streams
letters      the message that ours and the others pass on
points       percentiles, medians, spreads
report       the table, and the same as JSON
floor/       a bare group commit, without any engine: what the store's own engine room costs at least
peers/       the same work done by other libraries
plots/       pictures, drawn in an environment of their own
usage        what another process uses
"""
