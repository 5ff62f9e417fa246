-- Alerts of more kinds. One that is open counts how often the same was found, and is told to sinks.
ALTER TABLE {schema}.alert DROP CONSTRAINT alert_kind_check;
ALTER TABLE {schema}.alert ADD CONSTRAINT alert_kind_check CHECK (kind IN (
    'task_error', 'undo_failed', 'undo_manual', 'workflow_paused', 'agent_paused', 'submission_conflict',
    'dead_letter', 'queue_full', 'quarantine', 'breaker_open', 'stream_lag', 'occurrences_missed',
    'job_unreadable', 'job_unfit', 'other_log', 'offset_ahead', 'quarantine_full', 'queue_missing'));

ALTER TABLE {schema}.alert ADD COLUMN count   integer NOT NULL DEFAULT 1 CHECK (count >= 1);
-- Not given: there was one.
ALTER TABLE {schema}.alert ADD COLUMN last_at timestamptz CHECK (last_at >= at);
-- When every sink had been told. What was raised before there were sinks is told to none.
ALTER TABLE {schema}.alert ADD COLUMN told_at timestamptz;
UPDATE {schema}.alert SET told_at = at;

-- Of those that are open and tell of the same the first stays, with the number of all.
UPDATE {schema}.alert
   SET count = same.number, last_at = same.newest
  FROM (SELECT min(id) AS id, count(*) AS number, max(at) AS newest
          FROM {schema}.alert WHERE acknowledged_at IS NULL GROUP BY target, kind, step) AS same
 WHERE alert.id = same.id;
DELETE FROM {schema}.alert
 WHERE acknowledged_at IS NULL
   AND id NOT IN (SELECT min(id) FROM {schema}.alert
                   WHERE acknowledged_at IS NULL GROUP BY target, kind, step);

CREATE INDEX alert_untold ON {schema}.alert (id) WHERE told_at IS NULL;
-- While nobody has taken it up, the next one in the same trouble calls nobody. The index alert_once stays for
-- processes of the release before, which name it when they write.
CREATE UNIQUE INDEX alert_same ON {schema}.alert (target, kind, coalesce(step, ''))
    WHERE acknowledged_at IS NULL;

-- They also raise what is open already, and do not say when it came last: it is counted there.
CREATE FUNCTION {schema}.alert_counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.alert (kind, target, task_id, step, message, at, last_at)
    VALUES (NEW.kind, NEW.target, NEW.task_id, NEW.step, NEW.message, NEW.at, NEW.at)
    ON CONFLICT (target, kind, coalesce(step, '')) WHERE acknowledged_at IS NULL
    DO UPDATE SET count = alert.count + 1, last_at = greatest(alert.last_at, excluded.last_at);
    RETURN NULL;
END $$;

CREATE TRIGGER alert_counted BEFORE INSERT ON {schema}.alert FOR EACH ROW WHEN (NEW.last_at IS NULL)
EXECUTE FUNCTION {schema}.alert_counted();

CREATE TABLE {schema}.alert_delivery (
    alert_id bigint      NOT NULL,
    sink     text        NOT NULL,
    -- Tried so often; and when next, unless it has been told.
    attempt  integer     NOT NULL CHECK (attempt >= 1),
    next_at  timestamptz,
    error    text,
    PRIMARY KEY (alert_id, sink),
    CHECK ((next_at IS NULL) = (error IS NULL))
);
