"""What roles say to each other, and what others say to them.

wire       a scheduler asks an agent to do a step; the agent replies, or falls silent
queue      messages under a lock: what every backend of queues can do
care       what those who look after queues can do
exchange   where a process sends and receives
handles    a queue and a topic, message a message, as programs hold them
stream     events in partitions, read by anybody: what every log can do
streams    where a process appends and reads; stream_handle a stream as programs hold it
posting    appending for those who do not wait but are called
lines      events that come as lines of JSON
logs       which log a setting names
embedded/  the log of one host, in a file
bell       calls those who wait for a message, or an event
"""
