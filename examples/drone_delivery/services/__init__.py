"""The services behind a delivery, each a process with a file of its own.

``python -m drone_delivery.services NAME --port N --database FILE`` runs one of them.

account        may this customer order?
package        what is carried
third_party    is it too far for a drone?
drone          which drone carries it
delivery       the delivery as the customer sees it, with its tracking events
history        what happened to each delivery, in order

catalogue      the services by name, and the application that each of them is
server         the process: socket, server, signals
resources      what a service is made of; requests checked, booked and handled
records        what a service keeps by id, and why cancelled stays cancelled
file           the SQLite file: transactions, calls, the fault dial
outbox         what happened in a service, told to the world on a stream
faults         the fault dial and the faults of one request, drawn from dial and chance
disturbance    applies these faults to requests
books          what the files say, for whoever reconciles them
"""
