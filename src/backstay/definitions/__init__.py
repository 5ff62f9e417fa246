"""What an application declares, and what its code may call while it runs. No I/O.

codec       typed values to JSON and back, checked at the call
ambient     which workflow branch, or which attempt of a step, is running right now
agents      Agent, Step and Undo: the declarations behind @agent.step and @step.undo
workflows   Workflow: the declaration behind @app.workflow
policies    retry, breaker and recovery, checked where they are declared
queues      queues, topics and their consumers: behind app.queue, app.topic and @app.consumer
mounts      where an application of the user's own may stand beside the HTTP interface
registry    everything one application declared
calls       sleep, wait_for, start, race, now, random, uuid4, current_step
"""
