-- What schedulers ask of agents in other processes. One row for each step that is under way there: the
-- next attempt takes its place.

CREATE TABLE agent_request (
    -- The order in which they are taken up.
    number      INTEGER PRIMARY KEY,
    task_key    INTEGER NOT NULL,
    step        TEXT    NOT NULL,
    "undo"      INTEGER NOT NULL CHECK ("undo" = 0 OR "undo" = 1),
    agent       TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    complete_by INTEGER NOT NULL,
    -- The request as JSON, and what the agent replied.
    body        TEXT    NOT NULL,
    reply       TEXT,
    claimed_by  TEXT,
    withdrawn   INTEGER NOT NULL DEFAULT 0 CHECK (withdrawn = 0 OR withdrawn = 1),
    broken_off  TEXT    CHECK (broken_off = 'died' OR broken_off = 'stopped'),
    UNIQUE (task_key, step),
    CHECK (claimed_by IS NOT NULL OR broken_off IS NULL AND withdrawn = 0)
) STRICT;

CREATE INDEX agent_request_open ON agent_request (agent, number) WHERE claimed_by IS NULL;
CREATE INDEX agent_request_claimed ON agent_request (claimed_by) WHERE claimed_by IS NOT NULL;
