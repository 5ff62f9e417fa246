-- name: instance_columns
id, epoch, live, host, pid, runs::text, roles::text, report::text, started_at, heartbeat_at

-- name: insert_instance
INSERT INTO {schema}.instance (id, epoch, live, host, pid, runs, roles, started_at, heartbeat_at)
VALUES (:id, 1, true, :host, :pid, :runs::text::jsonb, :roles::text::jsonb, {now}, {now});

-- name: beat
UPDATE {schema}.instance SET heartbeat_at = {now}, report = coalesce(:report::text::jsonb, report)
 WHERE id = :id AND epoch = :epoch AND live
RETURNING clock_timestamp();

-- name: end_instance
-- The epoch moves on, so that a write that is still under way under the old one is refused. FOR UPDATE
-- waits for those that have locked it below; the UPDATE alone would not.
UPDATE {schema}.instance SET live = false, epoch = epoch + 1
 WHERE id = (SELECT id FROM {schema}.instance WHERE id = :id AND epoch = :epoch AND live FOR UPDATE)
RETURNING id;

-- name: list_instances
-- Those that live first: however many have ended since, they are there.
SELECT {instance_columns} FROM {schema}.instance
 ORDER BY live DESC, started_at DESC LIMIT 1000;

-- name: forget_instances
DELETE FROM {schema}.instance
 WHERE id IN (SELECT id FROM {schema}.instance WHERE NOT live AND heartbeat_at < {now} - :kept::interval LIMIT :limit);

-- name: instance_epochs
-- Locked until the commit: declaring one of them dead has to wait for what is written here, and what
-- is written after that finds another epoch. Only against that: a sign of life goes through meanwhile.
SELECT id, epoch FROM {schema}.instance WHERE live AND id = ANY (:ids::text[]) ORDER BY id FOR KEY SHARE;

-- name: free_tasks
-- What a dead or stopping instance was running goes back into the line; an undo stays one.
-- Locked in the order of the keys, as everywhere, so that no two transactions wait for each other.
WITH held AS (SELECT key FROM {schema}.task WHERE locked_by = :id ORDER BY key FOR UPDATE)
UPDATE {schema}.task
   SET state = CASE state WHEN 'processing' THEN 'pending' ELSE state END,
       locked_by = NULL, complete_by = NULL, lock_number = lock_number + 1,
       crash_count = crash_count + :crashes, updated_at = {now}
  FROM held
 WHERE task.key = held.key
RETURNING workflow, state;
