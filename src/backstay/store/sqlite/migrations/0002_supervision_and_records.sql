-- What the supervisor needs beside the tasks, and what is kept for operators. JSON is text here.

ALTER TABLE instance ADD COLUMN roles  TEXT NOT NULL DEFAULT '[]';
-- How the instance stood at its last sign of life.
ALTER TABLE instance ADD COLUMN report TEXT NOT NULL DEFAULT '{}';

-- Runs that have an end set for them, and are in somebody's hands.
CREATE INDEX task_hard_end ON task (hard_end) WHERE state = 'processing' AND hard_end IS NOT NULL;

-- Who leads. The row is always there: whoever wants to lead changes it, and only one can.
CREATE TABLE leader (
    name   TEXT    PRIMARY KEY CHECK (name = 'supervisor'),
    holder TEXT,
    -- Moves on with every change of leader: what an earlier one still tries to write is refused.
    epoch  INTEGER NOT NULL,
    until  INTEGER,
    CHECK ((holder IS NULL) = (until IS NULL))
) STRICT, WITHOUT ROWID;

INSERT INTO leader (name, epoch) VALUES ('supervisor', 0);

CREATE TABLE supervisor_round (
    id            INTEGER PRIMARY KEY,
    at            INTEGER NOT NULL,
    epoch         INTEGER NOT NULL,
    freed         INTEGER NOT NULL,
    overrun       INTEGER NOT NULL,
    steps_expired INTEGER NOT NULL,
    undos         INTEGER NOT NULL,
    woken         INTEGER NOT NULL,
    paused        INTEGER NOT NULL
) STRICT;

-- How often what had to be recovered, added up per sweep; kept for a day.
CREATE TABLE recovery (
    id       INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL,
    workflow TEXT    NOT NULL,
    -- Of a step that expired; NULL: of a task as a whole.
    agent    TEXT,
    number   INTEGER NOT NULL CHECK (number > 0)
) STRICT;

CREATE INDEX recovery_at ON recovery (at);

-- What is held back. Whatever has no row here is not.
CREATE TABLE control (
    subject TEXT    NOT NULL CHECK (subject IN ('workflow', 'agent')),
    name    TEXT    NOT NULL,
    paused  INTEGER NOT NULL CHECK (paused IN (0, 1)),
    breaker TEXT    CHECK (breaker IN ('open', 'closed')),
    "by"    TEXT    NOT NULL,
    reason  TEXT,
    at      INTEGER NOT NULL,
    PRIMARY KEY (subject, name),
    CHECK (paused = 1 OR breaker IS NOT NULL),
    CHECK (breaker IS NULL OR subject = 'agent')
) STRICT, WITHOUT ROWID;

CREATE TABLE alert (
    id              INTEGER PRIMARY KEY,
    kind            TEXT    NOT NULL CHECK (kind IN (
                        'task_error', 'undo_failed', 'undo_manual', 'workflow_paused', 'agent_paused')),
    target          TEXT    NOT NULL,
    task_id         TEXT,
    step            TEXT,
    message         TEXT    NOT NULL,
    at              INTEGER NOT NULL,
    acknowledged_by TEXT,
    acknowledged_at INTEGER,
    CHECK ((acknowledged_by IS NULL) = (acknowledged_at IS NULL))
) STRICT;

CREATE INDEX alert_open ON alert (id) WHERE acknowledged_at IS NULL;
CREATE INDEX alert_open_of ON alert (target) WHERE acknowledged_at IS NULL;

CREATE TABLE audit (
    id       INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL,
    who      TEXT    NOT NULL,
    action   TEXT    NOT NULL,
    target   TEXT    NOT NULL,
    reason   TEXT,
    "before" TEXT,
    "after"  TEXT
) STRICT;

CREATE INDEX audit_target ON audit (target, id);

-- What was done stays written, whoever would like it otherwise.
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only');
END;

-- SQLite asks no other trigger when a row replaces another.
CREATE TRIGGER audit_is_never_overwritten BEFORE INSERT ON audit
WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only');
END;

CREATE TRIGGER audit_is_never_shortened BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only');
END;

-- Of a token only the digest of its secret. A revoked one keeps its name: it stands in the trail.
CREATE TABLE token (
    name       TEXT    PRIMARY KEY,
    role       TEXT    NOT NULL CHECK (role IN ('read', 'submit', 'operate', 'admin')),
    digest     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency_key (
    key        TEXT    PRIMARY KEY,
    digest     TEXT    NOT NULL,
    task_id    TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_key_created_at ON idempotency_key (created_at);
