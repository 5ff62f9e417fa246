"""An order workflow under load, in a process that is killed again and again: nothing is lost.

services    stock, bank and carrier, with a log of their own that outlives every process
shop        the application: four agents around the services, and the workflow
worker      the child process that runs the shop; it is the one that gets killed
child       starts it, kills it, starts it again
board       what can be seen from outside: the state of every order, and the story so far
screen      the board in the terminal, live; plain lines when there is none
demo        the course of events: orders come in, the child dies, everything ends
reconcile   the services' log against the orders: what was done twice, what was left behind
"""
