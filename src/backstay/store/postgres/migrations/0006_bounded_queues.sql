-- Queues have a bound, receivers may defer messages, and a person is called once for each queue in trouble.

-- So many messages may be in a queue, in whatever state.
ALTER TABLE {schema}.queue
    ADD COLUMN max_messages bigint NOT NULL DEFAULT 1000000 CHECK (max_messages > 0);

CREATE INDEX subscription_queue ON {schema}.subscription (queue_key);

-- Whether a receiver has set it aside to ask for it by its number: there it goes back to, until it is settled.
ALTER TABLE {schema}.message ADD COLUMN deferred boolean NOT NULL DEFAULT false;

ALTER TABLE {schema}.message DROP CONSTRAINT message_check;
ALTER TABLE {schema}.message ADD CONSTRAINT message_check CHECK (CASE state
    WHEN 'ready'    THEN visible_at IS NULL AND lock_secret IS NULL AND NOT deferred
    WHEN 'locked'   THEN visible_at IS NOT NULL AND lock_secret IS NOT NULL AND delivery_count > 0
    WHEN 'behind'   THEN visible_at IS NULL AND lock_secret IS NULL AND session IS NOT NULL AND NOT deferred
    WHEN 'waiting'  THEN visible_at IS NOT NULL AND lock_secret IS NULL AND NOT deferred
    WHEN 'deferred' THEN visible_at IS NULL AND lock_secret IS NULL AND expires_at IS NULL AND deferred
    WHEN 'dead'     THEN visible_at IS NULL AND lock_secret IS NULL AND expires_at IS NULL
                         AND reason IS NOT NULL AND dead_at IS NOT NULL
    ELSE false END);

CREATE INDEX message_deferred ON {schema}.message (queue_key, sequence) WHERE state = 'deferred';

ALTER TABLE {schema}.alert DROP CONSTRAINT alert_kind_check;
ALTER TABLE {schema}.alert ADD CONSTRAINT alert_kind_check CHECK (kind IN (
    'task_error', 'undo_failed', 'undo_manual', 'workflow_paused', 'agent_paused', 'submission_conflict',
    'dead_letter', 'queue_full', 'quarantine'));

-- While nobody has taken it up, the next one in the same trouble calls nobody.
CREATE UNIQUE INDEX alert_once ON {schema}.alert (target, kind)
    WHERE acknowledged_at IS NULL AND kind IN ('dead_letter', 'queue_full', 'quarantine');
