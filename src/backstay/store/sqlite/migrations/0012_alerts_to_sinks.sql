-- Alerts of more kinds. One that is open counts how often the same was found, and is told to sinks.
CREATE TABLE alert_with_count (
    -- Never used again: who was told of an alert must not take another for it.
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    kind            TEXT    NOT NULL CHECK (kind IN (
                        'task_error', 'undo_failed', 'undo_manual', 'workflow_paused', 'agent_paused',
                        'submission_conflict', 'dead_letter', 'queue_full', 'quarantine',
                        'breaker_open', 'stream_lag', 'occurrences_missed', 'job_unreadable', 'job_unfit',
                        'other_log', 'offset_ahead', 'quarantine_full', 'queue_missing')),
    target          TEXT    NOT NULL,
    task_id         TEXT,
    step            TEXT,
    message         TEXT    NOT NULL,
    at              INTEGER NOT NULL,
    acknowledged_by TEXT,
    acknowledged_at INTEGER,
    count           INTEGER NOT NULL DEFAULT 1 CHECK (count >= 1),
    -- Not given: there was one.
    last_at         INTEGER,
    -- When every sink had been told.
    told_at         INTEGER,
    CHECK ((acknowledged_by IS NULL) = (acknowledged_at IS NULL)),
    CHECK (last_at >= at)
) STRICT;

-- What was raised before there were sinks is told to none.
INSERT INTO alert_with_count
SELECT id, kind, target, task_id, step, message, at, acknowledged_by, acknowledged_at, 1, at, at FROM alert;

-- Of those that are open and tell of the same the first stays, with the number of all.
UPDATE alert_with_count
   SET (count, last_at) = (SELECT count(*), max(same.at) FROM alert AS same
                            WHERE same.acknowledged_at IS NULL AND same.target = alert_with_count.target
                              AND same.kind = alert_with_count.kind AND same.step IS alert_with_count.step)
 WHERE acknowledged_at IS NULL;
DELETE FROM alert_with_count
 WHERE acknowledged_at IS NULL
   AND id NOT IN (SELECT min(id) FROM alert WHERE acknowledged_at IS NULL GROUP BY target, kind, step);

DROP TABLE alert;
ALTER TABLE alert_with_count RENAME TO alert;

CREATE INDEX alert_open ON alert (id) WHERE acknowledged_at IS NULL;
CREATE INDEX alert_open_of ON alert (target) WHERE acknowledged_at IS NULL;
CREATE INDEX alert_untold ON alert (id) WHERE told_at IS NULL;
-- While nobody has taken it up, the next one in the same trouble calls nobody.
CREATE UNIQUE INDEX alert_same ON alert (target, kind, coalesce(step, '')) WHERE acknowledged_at IS NULL;
-- For processes of the release before, which name it when they write.
CREATE UNIQUE INDEX alert_once ON alert (target, kind)
    WHERE acknowledged_at IS NULL AND kind IN ('dead_letter', 'queue_full', 'quarantine');
-- They also raise what is open already, and do not say when it came last: it is counted there.
CREATE TRIGGER alert_counted BEFORE INSERT ON alert
WHEN NEW.last_at IS NULL AND EXISTS (SELECT 1 FROM alert
                                      WHERE target = NEW.target AND kind = NEW.kind AND step IS NEW.step
                                        AND acknowledged_at IS NULL)
BEGIN
    UPDATE alert SET count = count + 1, last_at = max(coalesce(last_at, at), NEW.at)
     WHERE target = NEW.target AND kind = NEW.kind AND step IS NEW.step AND acknowledged_at IS NULL;
    SELECT RAISE(IGNORE);
END;

CREATE TABLE alert_delivery (
    alert_id INTEGER NOT NULL,
    sink     TEXT    NOT NULL,
    -- Tried so often; and when next, unless it has been told.
    attempt  INTEGER NOT NULL CHECK (attempt >= 1),
    next_at  INTEGER,
    error    TEXT,
    PRIMARY KEY (alert_id, sink),
    CHECK ((next_at IS NULL) = (error IS NULL))
) STRICT, WITHOUT ROWID;
