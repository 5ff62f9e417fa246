-- The same rules in a cheaper form. SQLite builds a small table for each IN (…) of more than two values, and
-- does so again for every statement: that was three quarters of what writing a step cost. A CASE stops at the
-- first word that fits, so the states of every day come first. A rule can only be changed with its table.

CREATE TABLE task_by_state (
    -- A small number inside, a readable id outside: the steps repeat only the number.
    key           INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    workflow      TEXT    NOT NULL,
    version       INTEGER NOT NULL,
    state         TEXT    NOT NULL,
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
    parked        INTEGER NOT NULL DEFAULT 0,
    request       TEXT    CHECK (request = 'cancel' OR request = 'undo'),
    reply_to      TEXT,
    attributes    TEXT    NOT NULL,
    parent_key    INTEGER,
    parent_step   TEXT,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,

    -- A task that nobody works on is nobody's, and has no complete-by. Every waiting task has a way back:
    -- a wake-up, or something that will call it.
    CHECK (CASE state
        WHEN 'processing'  THEN parked = 0 AND locked_by IS NOT NULL
        WHEN 'processed'   THEN parked = 0 AND locked_by IS NULL AND output IS NOT NULL
        WHEN 'pending'     THEN parked = 0 AND locked_by IS NULL
        WHEN 'waiting'     THEN parked = 1 AND locked_by IS NULL
        WHEN 'error'       THEN parked = 0 AND locked_by IS NULL AND error IS NOT NULL
        WHEN 'undoing'     THEN parked = 0 OR parked = 1
        WHEN 'undone'      THEN parked = 0 AND locked_by IS NULL
        WHEN 'undo_failed' THEN parked = 0 AND locked_by IS NULL
        WHEN 'cancelled'   THEN parked = 0 AND locked_by IS NULL
        ELSE 0 END),
    CHECK (locked_by IS NOT NULL OR complete_by IS NULL)
) STRICT;

INSERT INTO task_by_state
SELECT key, id, workflow, version, state, input, output, error, complete_by, hard_end, locked_by, lock_number,
       failure_count, crash_count, wake_at, parked, request, reply_to, attributes, parent_key, parent_step,
       created_at, updated_at
  FROM task;

DROP TABLE task;
ALTER TABLE task_by_state RENAME TO task;

-- The indexes hold live rows only, so that claiming, expiry and listing cost the same with ten
-- tasks or with ten million finished ones.
CREATE INDEX task_claimable ON task (workflow, version, key)
    WHERE locked_by IS NULL AND parked = 0 AND state IN ('pending', 'undoing');
CREATE INDEX task_locked ON task (complete_by, locked_by) WHERE locked_by IS NOT NULL;
CREATE INDEX task_wake ON task (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX task_unusual ON task (state, key)
    WHERE state IN ('waiting', 'error', 'undoing', 'undone', 'undo_failed', 'cancelled');
CREATE INDEX task_parent ON task (parent_key) WHERE parent_key IS NOT NULL;
-- Runs that have an end set for them, and are in somebody's hands.
CREATE INDEX task_hard_end ON task (hard_end) WHERE state = 'processing' AND hard_end IS NOT NULL;

-- The arrows of domain/states.py. A CHECK sees only the new row; a trigger sees both.
CREATE TRIGGER task_arrows BEFORE UPDATE OF state ON task
WHEN OLD.state <> NEW.state AND CASE OLD.state || ' -> ' || NEW.state
    WHEN 'processing -> processed'  THEN 0
    WHEN 'pending -> processing'    THEN 0
    WHEN 'processing -> waiting'    THEN 0
    WHEN 'waiting -> pending'       THEN 0
    WHEN 'pending -> cancelled'     THEN 0
    WHEN 'processing -> pending'    THEN 0
    WHEN 'processing -> error'      THEN 0
    WHEN 'processing -> undoing'    THEN 0
    WHEN 'processing -> cancelled'  THEN 0
    WHEN 'waiting -> error'         THEN 0
    WHEN 'waiting -> undoing'       THEN 0
    WHEN 'waiting -> cancelled'     THEN 0
    WHEN 'error -> pending'         THEN 0
    WHEN 'error -> undoing'         THEN 0
    WHEN 'error -> cancelled'       THEN 0
    WHEN 'processed -> undoing'     THEN 0
    WHEN 'undoing -> undone'        THEN 0
    WHEN 'undoing -> undo_failed'   THEN 0
    WHEN 'undo_failed -> undoing'   THEN 0
    WHEN 'undo_failed -> undone'    THEN 0
    ELSE 1 END
BEGIN
    SELECT RAISE(ABORT, 'no such arrow between task states');
END;

CREATE TABLE step_by_state (
    task_key      INTEGER NOT NULL,
    key           TEXT    NOT NULL,
    kind          TEXT    NOT NULL,
    agent         TEXT,
    operation     TEXT    NOT NULL,
    state         TEXT    NOT NULL,
    attempt       INTEGER NOT NULL,
    failure_count INTEGER NOT NULL,
    complete_by   INTEGER,
    input         BLOB,
    output        BLOB,
    error         BLOB,
    started_at    INTEGER,
    ended_at      INTEGER,
    position      INTEGER,
    "undo"        TEXT    CHECK ("undo" = 'automatic' OR "undo" = 'manual'),
    undo_attempt  INTEGER NOT NULL,
    undo_failures INTEGER NOT NULL,
    pivot         INTEGER NOT NULL CHECK (pivot = 0 OR pivot = 1),
    unsure        INTEGER NOT NULL CHECK (unsure = 0 OR unsure = 1),

    -- Clustered by task: a journal is one range read.
    PRIMARY KEY (task_key, key),
    CHECK (CASE kind
        WHEN 'step'   THEN agent IS NOT NULL
        WHEN 'sleep'  THEN 1
        WHEN 'signal' THEN 1
        WHEN 'child'  THEN 1
        WHEN 'value'  THEN 1
        ELSE 0 END),
    -- A step that is queued, or parked by a breaker, has no complete-by; a running one always has.
    CHECK (CASE state
        WHEN 'running'     THEN position IS NULL AND (kind <> 'step' OR complete_by IS NOT NULL AND attempt > 0)
        WHEN 'completed'   THEN position IS NOT NULL AND output IS NOT NULL
        WHEN 'pending'     THEN position IS NULL AND complete_by IS NULL
        WHEN 'failed'      THEN 1
        WHEN 'skipped'     THEN 1
        WHEN 'undoing'     THEN 1
        WHEN 'undone'      THEN 1
        WHEN 'undo_failed' THEN 1
        ELSE 0 END)
) STRICT, WITHOUT ROWID;

INSERT INTO step_by_state
SELECT task_key, key, kind, agent, operation, state, attempt, failure_count, complete_by, input, output, error,
       started_at, ended_at, position, "undo", undo_attempt, undo_failures, pivot, unsure
  FROM step;

DROP TABLE step;
ALTER TABLE step_by_state RENAME TO step;

CREATE TRIGGER step_arrows BEFORE UPDATE OF state ON step
WHEN OLD.state <> NEW.state AND CASE OLD.state || ' -> ' || NEW.state
    WHEN 'running -> completed'     THEN 0
    WHEN 'pending -> running'       THEN 0
    WHEN 'running -> failed'        THEN 0
    WHEN 'running -> pending'       THEN 0
    WHEN 'pending -> skipped'       THEN 0
    WHEN 'pending -> completed'     THEN 0
    WHEN 'failed -> pending'        THEN 0
    WHEN 'failed -> undoing'        THEN 0
    WHEN 'failed -> skipped'        THEN 0
    WHEN 'failed -> completed'      THEN 0
    WHEN 'completed -> undoing'     THEN 0
    WHEN 'undoing -> undone'        THEN 0
    WHEN 'undoing -> undo_failed'   THEN 0
    WHEN 'undo_failed -> undoing'   THEN 0
    WHEN 'undo_failed -> undone'    THEN 0
    ELSE 1 END
BEGIN
    SELECT RAISE(ABORT, 'no such arrow between step states');
END;
