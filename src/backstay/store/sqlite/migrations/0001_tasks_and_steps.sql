-- Instants are whole microseconds since 1970, UTC. JSON is kept as it was encoded. A column of JSON
-- that starts with '@' is a claim check: the rest is the digest of a row in payload.

CREATE TABLE instance (
    id           TEXT    PRIMARY KEY,
    -- Moves on when the instance is declared dead: every write it still tries is refused.
    epoch        INTEGER NOT NULL,
    live         INTEGER NOT NULL CHECK (live IN (0, 1)),
    host         TEXT    NOT NULL,
    pid          INTEGER NOT NULL,
    runs         TEXT    NOT NULL,
    started_at   INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX instance_live ON instance (heartbeat_at) WHERE live = 1;

CREATE TABLE task (
    -- A small number inside, a readable id outside: the steps repeat only the number.
    key           INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    workflow      TEXT    NOT NULL,
    version       INTEGER NOT NULL,
    state         TEXT    NOT NULL CHECK (state IN (
                      'pending', 'processing', 'processed', 'waiting', 'error',
                      'undoing', 'undone', 'undo_failed', 'cancelled')),
    input         BLOB    NOT NULL,
    output        BLOB,
    error         BLOB,
    complete_by   INTEGER,
    hard_end      INTEGER,
    locked_by     TEXT,
    lock_number   INTEGER NOT NULL DEFAULT 0,
    failure_count INTEGER NOT NULL DEFAULT 0,
    crash_count   INTEGER NOT NULL DEFAULT 0,
    wake_at       INTEGER,
    parked        INTEGER NOT NULL DEFAULT 0 CHECK (parked IN (0, 1)),
    request       TEXT    CHECK (request IN ('cancel', 'undo')),
    reply_to      TEXT,
    attributes    TEXT    NOT NULL,
    parent_key    INTEGER,
    parent_step   TEXT,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,

    -- A task that nobody works on is nobody's, and has no complete-by.
    CHECK (locked_by IS NULL OR state IN ('processing', 'undoing')),
    CHECK (locked_by IS NOT NULL OR state <> 'processing'),
    CHECK (locked_by IS NOT NULL OR complete_by IS NULL),
    -- Every waiting task has a way back: a wake-up, or something that will call it.
    CHECK (state <> 'waiting' OR parked = 1),
    CHECK (parked = 0 OR state IN ('waiting', 'undoing')),
    CHECK (state <> 'processed' OR output IS NOT NULL),
    CHECK (state <> 'error' OR error IS NOT NULL)
) STRICT;

-- The indexes hold live rows only, so that claiming, expiry and listing cost the same with ten
-- tasks or with ten million finished ones.
CREATE INDEX task_claimable ON task (workflow, version, key)
    WHERE locked_by IS NULL AND parked = 0 AND state IN ('pending', 'undoing');
CREATE INDEX task_locked ON task (complete_by, locked_by) WHERE locked_by IS NOT NULL;
CREATE INDEX task_wake ON task (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX task_unusual ON task (state, key)
    WHERE state IN ('waiting', 'error', 'undoing', 'undone', 'undo_failed', 'cancelled');
CREATE INDEX task_parent ON task (parent_key) WHERE parent_key IS NOT NULL;

-- The arrows of domain/states.py. A CHECK sees only the new row; a trigger sees both.
CREATE TRIGGER task_arrows BEFORE UPDATE OF state ON task
WHEN OLD.state <> NEW.state AND NOT (CASE OLD.state
    WHEN 'pending'     THEN NEW.state IN ('processing', 'cancelled')
    WHEN 'processing'  THEN NEW.state IN ('processed', 'waiting', 'pending', 'error', 'undoing', 'cancelled')
    WHEN 'waiting'     THEN NEW.state IN ('pending', 'error', 'undoing', 'cancelled')
    WHEN 'error'       THEN NEW.state IN ('pending', 'undoing', 'cancelled')
    WHEN 'processed'   THEN NEW.state IN ('undoing')
    WHEN 'undoing'     THEN NEW.state IN ('undone', 'undo_failed')
    WHEN 'undo_failed' THEN NEW.state IN ('undoing', 'undone')
    ELSE 0 END)
BEGIN
    SELECT RAISE(ABORT, 'no such arrow between task states');
END;

CREATE TABLE step (
    task_key      INTEGER NOT NULL,
    key           TEXT    NOT NULL,
    kind          TEXT    NOT NULL CHECK (kind IN ('step', 'sleep', 'signal', 'child', 'value')),
    agent         TEXT,
    operation     TEXT    NOT NULL,
    state         TEXT    NOT NULL CHECK (state IN (
                      'pending', 'running', 'completed', 'failed', 'skipped',
                      'undoing', 'undone', 'undo_failed')),
    attempt       INTEGER NOT NULL,
    failure_count INTEGER NOT NULL,
    complete_by   INTEGER,
    input         BLOB,
    output        BLOB,
    error         BLOB,
    started_at    INTEGER,
    ended_at      INTEGER,
    position      INTEGER,
    "undo"        TEXT    CHECK ("undo" IN ('automatic', 'manual')),
    undo_attempt  INTEGER NOT NULL,
    undo_failures INTEGER NOT NULL,
    pivot         INTEGER NOT NULL CHECK (pivot IN (0, 1)),
    unsure        INTEGER NOT NULL CHECK (unsure IN (0, 1)),

    -- Clustered by task: a journal is one range read.
    PRIMARY KEY (task_key, key),
    CHECK (kind <> 'step' OR agent IS NOT NULL),
    -- A step that is queued, or parked by a breaker, has no complete-by; a running one always has.
    CHECK (state <> 'pending' OR complete_by IS NULL),
    CHECK (state <> 'running' OR kind <> 'step' OR (complete_by IS NOT NULL AND attempt > 0)),
    CHECK (state <> 'completed' OR (output IS NOT NULL AND position IS NOT NULL)),
    CHECK (state NOT IN ('pending', 'running') OR position IS NULL)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER step_arrows BEFORE UPDATE OF state ON step
WHEN OLD.state <> NEW.state AND NOT (CASE OLD.state
    WHEN 'pending'     THEN NEW.state IN ('running', 'skipped', 'completed')
    WHEN 'running'     THEN NEW.state IN ('completed', 'failed', 'pending')
    WHEN 'completed'   THEN NEW.state IN ('undoing')
    WHEN 'failed'      THEN NEW.state IN ('pending', 'undoing', 'skipped', 'completed')
    WHEN 'undoing'     THEN NEW.state IN ('undone', 'undo_failed')
    WHEN 'undo_failed' THEN NEW.state IN ('undoing', 'undone')
    ELSE 0 END)
BEGIN
    SELECT RAISE(ABORT, 'no such arrow between step states');
END;

-- What was told to a task from outside. Kept until the task is pruned: a replay reads it again.
CREATE TABLE signal (
    task_key    INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    name        TEXT    NOT NULL,
    dedup       TEXT,
    payload     BLOB    NOT NULL,
    consumed_by TEXT,
    received_at INTEGER NOT NULL,
    PRIMARY KEY (task_key, number)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX signal_once ON signal (task_key, name, dedup) WHERE dedup IS NOT NULL;

-- Large values, out of the way of the small rows that are read and written all the time.
CREATE TABLE payload (
    task_key INTEGER NOT NULL,
    digest   TEXT    NOT NULL,
    body     BLOB    NOT NULL,
    PRIMARY KEY (task_key, digest)
) STRICT;
