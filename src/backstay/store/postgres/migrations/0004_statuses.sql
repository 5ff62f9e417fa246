-- What the submitters of tasks were told last. Tasks whose submitters want to hear nothing have no row here.

CREATE TABLE {schema}.told (
    task_key bigint PRIMARY KEY,
    status   text   NOT NULL CHECK (status IN ('received', 'started', 'completed', 'failed', 'undone')),
    -- Counts what was told of this task, and never goes back: message ids are made of it.
    sequence bigint NOT NULL CHECK (sequence > 0)
);

CREATE FUNCTION {schema}.told_goes_forward() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE integrity_constraint_violation USING MESSAGE = 'what was told is not told again';
END $$;

CREATE TRIGGER told_goes_forward BEFORE UPDATE ON {schema}.told
FOR EACH ROW WHEN (NEW.sequence <= OLD.sequence) EXECUTE FUNCTION {schema}.told_goes_forward();

-- One more kind of alert.
ALTER TABLE {schema}.alert DROP CONSTRAINT alert_kind_check;
ALTER TABLE {schema}.alert ADD CONSTRAINT alert_kind_check CHECK (kind IN (
    'task_error', 'undo_failed', 'undo_manual', 'workflow_paused', 'agent_paused', 'submission_conflict'));
