"""Drone delivery: five services that must agree, or undo what they did. The flagship example.

entities    what a delivery consists of, as it goes over the wire
wire        what all HTTP applications here share: checked bodies, answers, problems
addresses   the services by name, and where each is found
workflow    an agent for each service, its steps with their undos, and their order
ingestion   where customers hand in requests and ask how their delivery stands
app         both together: ``backstay serve drone_delivery.app:app``
services    account, package, third-party transportation, drone and delivery, each a process with its own file
demo        all of it at once, under load, in a terminal: ``backstay demo``
"""
