"""Drone delivery: five services that must agree, or undo what they did. The flagship example.

entities    what a delivery consists of, as it goes over the wire
wire        what all HTTP applications here share: checked bodies, answers, problems
addresses   the services by name, and where each is found
workflow    an agent for each service, its steps with their undos, and their order
carrier     what no drone can fly, and an undo that is a person's work
ingestion   where customers hand in requests and ask how their delivery stands
history     what happened to deliveries, read from a stream into a service of its own
app         all of these together: ``backstay serve drone_delivery.app:app``
supervisor  an application beside it, which hears of what failed and tells people
services    what has to agree, and the history: each a process with a file of its own
demo        all of it at once, under load, in a terminal: ``backstay demo``
"""
