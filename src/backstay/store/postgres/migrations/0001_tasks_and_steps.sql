-- Everything lies in a schema of its own ({schema}), so that the store can share a database with the
-- application and a task can be submitted in the application's own transaction. JSON is kept as it
-- was encoded. A column of JSON that starts with '@' is a claim check: the rest is the digest of a
-- row in payload.

-- Who writes: one row per connection that does. The number of its last transaction tells, when the
-- answer to a COMMIT was lost, whether that COMMIT happened.
CREATE TABLE {schema}.writer (
    id      text        PRIMARY KEY,
    number  bigint      NOT NULL,
    used_at timestamptz NOT NULL
);

CREATE TABLE {schema}.instance (
    id           text        PRIMARY KEY,
    -- Moves on when the instance is declared dead: every write it still tries is refused.
    epoch        bigint      NOT NULL,
    live         boolean     NOT NULL,
    host         text        NOT NULL,
    pid          bigint      NOT NULL,
    runs         jsonb       NOT NULL,
    started_at   timestamptz NOT NULL,
    heartbeat_at timestamptz NOT NULL
);

CREATE INDEX instance_live ON {schema}.instance (heartbeat_at) WHERE live;

CREATE TABLE {schema}.task (
    -- A small number inside, a readable id outside: the steps repeat only the number.
    key           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id            text        NOT NULL UNIQUE,
    workflow      text        NOT NULL,
    version       bigint      NOT NULL,
    state         text        NOT NULL CHECK (state IN (
                      'pending', 'processing', 'processed', 'waiting', 'error',
                      'undoing', 'undone', 'undo_failed', 'cancelled')),
    input         bytea       NOT NULL,
    output        bytea,
    error         bytea,
    complete_by   timestamptz,
    hard_end      timestamptz,
    locked_by     text,
    lock_number   bigint      NOT NULL DEFAULT 0,
    failure_count bigint      NOT NULL DEFAULT 0,
    crash_count   bigint      NOT NULL DEFAULT 0,
    wake_at       timestamptz,
    parked        boolean     NOT NULL DEFAULT false,
    request       text        CHECK (request IN ('cancel', 'undo')),
    reply_to      text,
    attributes    jsonb       NOT NULL,
    parent_key    bigint,
    parent_step   text,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,

    -- A task that nobody works on is nobody's, and has no complete-by.
    CHECK (locked_by IS NULL OR state IN ('processing', 'undoing')),
    CHECK (locked_by IS NOT NULL OR state <> 'processing'),
    CHECK (locked_by IS NOT NULL OR complete_by IS NULL),
    -- Every waiting task has a way back: a wake-up, or something that will call it.
    CHECK (state <> 'waiting' OR parked),
    CHECK (NOT parked OR state IN ('waiting', 'undoing')),
    CHECK (state <> 'processed' OR output IS NOT NULL),
    CHECK (state <> 'error' OR error IS NOT NULL)
);

-- The indexes hold live rows only, so that claiming, expiry and listing cost the same with ten
-- tasks or with ten million finished ones.
CREATE INDEX task_claimable ON {schema}.task (workflow, version, key)
    WHERE locked_by IS NULL AND NOT parked AND state IN ('pending', 'undoing');
CREATE INDEX task_locked ON {schema}.task (complete_by, locked_by) WHERE locked_by IS NOT NULL;
CREATE INDEX task_wake ON {schema}.task (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX task_unusual ON {schema}.task (state, key)
    WHERE state IN ('waiting', 'error', 'undoing', 'undone', 'undo_failed', 'cancelled');
CREATE INDEX task_parent ON {schema}.task (parent_key) WHERE parent_key IS NOT NULL;

CREATE FUNCTION {schema}.no_such_arrow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE check_violation USING
        MESSAGE = format('no such arrow between %s states: %s to %s', TG_TABLE_NAME, OLD.state, NEW.state);
END $$;

-- The arrows of domain/states.py. A CHECK sees only the new row; a trigger sees both. The condition
-- is judged without a call: the function runs only to refuse.
CREATE TRIGGER task_arrows BEFORE UPDATE OF state ON {schema}.task FOR EACH ROW
WHEN (OLD.state <> NEW.state AND NOT (CASE OLD.state
    WHEN 'pending'     THEN NEW.state IN ('processing', 'cancelled')
    WHEN 'processing'  THEN NEW.state IN ('processed', 'waiting', 'pending', 'error', 'undoing', 'cancelled')
    WHEN 'waiting'     THEN NEW.state IN ('pending', 'error', 'undoing', 'cancelled')
    WHEN 'error'       THEN NEW.state IN ('pending', 'undoing', 'cancelled')
    WHEN 'processed'   THEN NEW.state IN ('undoing')
    WHEN 'undoing'     THEN NEW.state IN ('undone', 'undo_failed')
    WHEN 'undo_failed' THEN NEW.state IN ('undoing', 'undone')
    ELSE false END))
EXECUTE FUNCTION {schema}.no_such_arrow();

CREATE TABLE {schema}.step (
    task_key      bigint  NOT NULL,
    key           text    NOT NULL,
    kind          text    NOT NULL CHECK (kind IN ('step', 'sleep', 'signal', 'child', 'value')),
    agent         text,
    operation     text    NOT NULL,
    state         text    NOT NULL CHECK (state IN (
                      'pending', 'running', 'completed', 'failed', 'skipped',
                      'undoing', 'undone', 'undo_failed')),
    attempt       bigint  NOT NULL,
    failure_count bigint  NOT NULL,
    complete_by   timestamptz,
    input         bytea,
    output        bytea,
    error         bytea,
    started_at    timestamptz,
    ended_at      timestamptz,
    position      bigint,
    undo          text    CHECK (undo IN ('automatic', 'manual')),
    undo_attempt  bigint  NOT NULL,
    undo_failures bigint  NOT NULL,
    pivot         boolean NOT NULL,
    unsure        boolean NOT NULL,

    PRIMARY KEY (task_key, key),
    CHECK (kind <> 'step' OR agent IS NOT NULL),
    -- A step that is queued, or parked by a breaker, has no complete-by; a running one always has.
    CHECK (state <> 'pending' OR complete_by IS NULL),
    CHECK (state <> 'running' OR kind <> 'step' OR (complete_by IS NOT NULL AND attempt > 0)),
    CHECK (state <> 'completed' OR (output IS NOT NULL AND position IS NOT NULL)),
    CHECK (state NOT IN ('pending', 'running') OR position IS NULL)
);

CREATE TRIGGER step_arrows BEFORE UPDATE OF state ON {schema}.step FOR EACH ROW
WHEN (OLD.state <> NEW.state AND NOT (CASE OLD.state
    WHEN 'pending'     THEN NEW.state IN ('running', 'skipped', 'completed')
    WHEN 'running'     THEN NEW.state IN ('completed', 'failed', 'pending')
    WHEN 'completed'   THEN NEW.state IN ('undoing')
    WHEN 'failed'      THEN NEW.state IN ('pending', 'undoing', 'skipped', 'completed')
    WHEN 'undoing'     THEN NEW.state IN ('undone', 'undo_failed')
    WHEN 'undo_failed' THEN NEW.state IN ('undoing', 'undone')
    ELSE false END))
EXECUTE FUNCTION {schema}.no_such_arrow();

-- What was told to a task from outside. Kept until the task is pruned: a replay reads it again.
CREATE TABLE {schema}.signal (
    task_key    bigint      NOT NULL,
    number      bigint      NOT NULL,
    name        text        NOT NULL,
    dedup       text,
    payload     bytea       NOT NULL,
    consumed_by text,
    received_at timestamptz NOT NULL,
    PRIMARY KEY (task_key, number)
);

CREATE UNIQUE INDEX signal_once ON {schema}.signal (task_key, name, dedup) WHERE dedup IS NOT NULL;

-- Large values, out of the way of the small rows that are read and written all the time.
CREATE TABLE {schema}.payload (
    task_key bigint NOT NULL,
    digest   text   NOT NULL,
    body     bytea  NOT NULL,
    PRIMARY KEY (task_key, digest)
);
