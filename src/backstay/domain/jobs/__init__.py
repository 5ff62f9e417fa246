"""Jobs: an action, when to start it, how often, how to retry it, and what to do when it fails for good.

records     what the store keeps of collections, jobs and their history
names       what collections and jobs may be called
shapes      which members their documents have
merging     what is kept and what is sent, made one document
readers     values as they are answered
actions, retrying, timing
            parts of a job's document
documents   a job's document: read, or merged with what is kept; secrets lie apart
collection  a collection's document, read and answered; locations are where it may be
skus        what a collection allows
planning    when a job runs next, after somebody changed it
deciding    what a change makes of what is there
rendering   jobs and their history, answered
ticking     what a tick makes of a job whose next instant has come
occurrences an occurrence as a task; messages are what the history says of it
outcomes    what attempts make of their job

    body ── documents ──▶ JobDocument ── deciding ──▶ JobRecord ── rendering ──▶ answer
"""
