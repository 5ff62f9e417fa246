"""What roles say to each other, and what others say to them.

wire       a scheduler asks an agent to do a step; the agent replies, or falls silent
queue      messages under a lock: what every backend of queues can do
care       what those who look after queues can do
exchange   where a process sends and receives
handles    a queue and a topic, message a message, as programs hold them
bell       calls those who wait for a message
"""
