-- What the submitters of tasks were told last. Tasks whose submitters want to hear nothing have no row here.

CREATE TABLE told (
    task_key INTEGER PRIMARY KEY,
    status   TEXT    NOT NULL CHECK (status IN ('received', 'started', 'completed', 'failed', 'undone')),
    -- Counts what was told of this task, and never goes back: message ids are made of it.
    sequence INTEGER NOT NULL CHECK (sequence > 0)
) STRICT;

CREATE TRIGGER told_goes_forward BEFORE UPDATE ON told
WHEN NEW.sequence <= OLD.sequence
BEGIN
    SELECT RAISE(ABORT, 'what was told is not told again');
END;

-- One more kind of alert. A rule can only be changed with its table.
CREATE TABLE alert_of_more_kinds (
    id              INTEGER PRIMARY KEY,
    kind            TEXT    NOT NULL CHECK (kind IN (
                        'task_error', 'undo_failed', 'undo_manual', 'workflow_paused', 'agent_paused',
                        'submission_conflict')),
    target          TEXT    NOT NULL,
    task_id         TEXT,
    step            TEXT,
    message         TEXT    NOT NULL,
    at              INTEGER NOT NULL,
    acknowledged_by TEXT,
    acknowledged_at INTEGER,
    CHECK ((acknowledged_by IS NULL) = (acknowledged_at IS NULL))
) STRICT;

INSERT INTO alert_of_more_kinds
SELECT id, kind, target, task_id, step, message, at, acknowledged_by, acknowledged_at FROM alert;

DROP TABLE alert;
ALTER TABLE alert_of_more_kinds RENAME TO alert;

CREATE INDEX alert_open ON alert (id) WHERE acknowledged_at IS NULL;
CREATE INDEX alert_open_of ON alert (target) WHERE acknowledged_at IS NULL;
