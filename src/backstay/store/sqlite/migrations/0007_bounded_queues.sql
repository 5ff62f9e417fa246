-- Queues have a bound, receivers may defer messages, and a person is called once for each queue in trouble.
-- Rules can only be changed with their tables.

-- A key is never given twice: of a queue that was deleted, ids may be remembered for a while.
CREATE TABLE queue_with_bound (
    key                 INTEGER PRIMARY KEY AUTOINCREMENT,
    name                TEXT    NOT NULL UNIQUE,
    lock_time           INTEGER NOT NULL CHECK (lock_time > 0),
    max_deliveries      INTEGER NOT NULL CHECK (max_deliveries > 0),
    dedup               INTEGER NOT NULL CHECK (dedup >= 0),
    ttl                 INTEGER CHECK (ttl > 0),
    dead_letter_expired INTEGER NOT NULL,
    sessions            INTEGER NOT NULL,
    -- So many messages may be in it, in whatever state.
    max_messages        INTEGER NOT NULL DEFAULT 1000000 CHECK (max_messages > 0),
    created_at          INTEGER NOT NULL
) STRICT;

INSERT INTO queue_with_bound (key, name, lock_time, max_deliveries, dedup, ttl, dead_letter_expired, sessions,
                              created_at)
SELECT key, name, lock_time, max_deliveries, dedup, ttl, dead_letter_expired, sessions, created_at FROM queue;

DROP TABLE queue;
ALTER TABLE queue_with_bound RENAME TO queue;

CREATE INDEX subscription_queue ON subscription (queue_key);

CREATE TABLE message_of_more_states (
    sequence       INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_key      INTEGER NOT NULL,
    id             TEXT    NOT NULL,
    properties     TEXT    NOT NULL,
    session        TEXT,
    priority       INTEGER NOT NULL,
    state          TEXT    NOT NULL,
    rank           INTEGER NOT NULL,
    enqueued_at    INTEGER NOT NULL,
    visible_at     INTEGER,
    expires_at     INTEGER,
    lock_secret    TEXT,
    delivery_count INTEGER NOT NULL DEFAULT 0,
    reason         TEXT,
    detail         TEXT,
    dead_at        INTEGER,
    -- Whether a receiver has set it aside to ask for it by its number: there it goes back to, until it is settled.
    deferred       INTEGER NOT NULL DEFAULT 0 CHECK (deferred = 0 OR deferred = 1),
    body           BLOB    NOT NULL,

    CHECK (CASE state
        WHEN 'ready'    THEN visible_at IS NULL AND lock_secret IS NULL AND deferred = 0
        WHEN 'locked'   THEN visible_at IS NOT NULL AND lock_secret IS NOT NULL AND delivery_count > 0
        WHEN 'behind'   THEN visible_at IS NULL AND lock_secret IS NULL AND session IS NOT NULL AND deferred = 0
        WHEN 'waiting'  THEN visible_at IS NOT NULL AND lock_secret IS NULL AND deferred = 0
        WHEN 'deferred' THEN visible_at IS NULL AND lock_secret IS NULL AND expires_at IS NULL AND deferred = 1
        WHEN 'dead'     THEN visible_at IS NULL AND lock_secret IS NULL AND expires_at IS NULL
                             AND reason IS NOT NULL AND dead_at IS NOT NULL
        ELSE 0 END)
) STRICT;

INSERT INTO message_of_more_states (sequence, queue_key, id, properties, session, priority, state, rank, enqueued_at,
                                    visible_at, expires_at, lock_secret, delivery_count, reason, detail, dead_at, body)
SELECT sequence, queue_key, id, properties, session, priority, state, rank, enqueued_at,
       visible_at, expires_at, lock_secret, delivery_count, reason, detail, dead_at, body
  FROM message;

-- Numbers go on where they were, though the last of them may be gone.
DELETE FROM sqlite_sequence WHERE name = 'message_of_more_states';
INSERT INTO sqlite_sequence (name, seq)
SELECT 'message_of_more_states', seq FROM sqlite_sequence WHERE name = 'message';

DROP TABLE message;
ALTER TABLE message_of_more_states RENAME TO message;

CREATE INDEX message_ready ON message (queue_key, rank, sequence) WHERE state = 'ready';
CREATE INDEX message_locked ON message (queue_key, visible_at) WHERE state = 'locked';
CREATE INDEX message_waiting ON message (queue_key, visible_at) WHERE state = 'waiting';
CREATE INDEX message_expires ON message (queue_key, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX message_session ON message (queue_key, session, state, sequence)
    WHERE session IS NOT NULL AND state <> 'dead';
CREATE INDEX message_deferred ON message (queue_key, sequence) WHERE state = 'deferred';
CREATE INDEX message_dead ON message (queue_key, sequence) WHERE state = 'dead';

CREATE TABLE alert_of_queues (
    id              INTEGER PRIMARY KEY,
    kind            TEXT    NOT NULL CHECK (kind IN (
                        'task_error', 'undo_failed', 'undo_manual', 'workflow_paused', 'agent_paused',
                        'submission_conflict', 'dead_letter', 'queue_full', 'quarantine')),
    target          TEXT    NOT NULL,
    task_id         TEXT,
    step            TEXT,
    message         TEXT    NOT NULL,
    at              INTEGER NOT NULL,
    acknowledged_by TEXT,
    acknowledged_at INTEGER,
    CHECK ((acknowledged_by IS NULL) = (acknowledged_at IS NULL))
) STRICT;

INSERT INTO alert_of_queues
SELECT id, kind, target, task_id, step, message, at, acknowledged_by, acknowledged_at FROM alert;

DROP TABLE alert;
ALTER TABLE alert_of_queues RENAME TO alert;

CREATE INDEX alert_open ON alert (id) WHERE acknowledged_at IS NULL;
CREATE INDEX alert_open_of ON alert (target) WHERE acknowledged_at IS NULL;
-- While nobody has taken it up, the next one in the same trouble calls nobody.
CREATE UNIQUE INDEX alert_once ON alert (target, kind)
    WHERE acknowledged_at IS NULL AND kind IN ('dead_letter', 'queue_full', 'quarantine');
