-- name: instance_columns
id, epoch, live, host, pid, runs, roles, report, started_at, heartbeat_at

-- name: insert_instance
INSERT INTO instance (id, epoch, live, host, pid, runs, roles, started_at, heartbeat_at)
VALUES (:id, 1, 1, :host, :pid, :runs, :roles, :now, :now);

-- name: beat
UPDATE instance SET heartbeat_at = :now, report = coalesce(:report, report)
 WHERE id = :id AND epoch = :epoch AND live = 1;

-- name: end_instance
-- The epoch moves on, so that a write that is still under way under the old one is refused.
UPDATE instance SET live = 0, epoch = epoch + 1 WHERE id = :id AND epoch = :epoch AND live = 1;

-- name: list_instances
-- Those that live first: however many have ended since, they are there.
SELECT {instance_columns} FROM instance
 ORDER BY live DESC, started_at DESC LIMIT 1000;

-- name: forget_instances
DELETE FROM instance
 WHERE id IN (SELECT id FROM instance WHERE live = 0 AND heartbeat_at < :before LIMIT :limit);

-- name: instance_epochs
SELECT id, epoch FROM instance WHERE live = 1 AND id IN (SELECT value FROM json_each(:ids));

-- name: free_tasks
-- What a dead or stopping instance was running goes back into the line; an undo stays one.
UPDATE task
   SET state = CASE state WHEN 'processing' THEN 'pending' ELSE state END,
       locked_by = NULL, complete_by = NULL, lock_number = lock_number + 1,
       crash_count = crash_count + :crashes, updated_at = :now
 WHERE locked_by = :id
RETURNING workflow, state;
