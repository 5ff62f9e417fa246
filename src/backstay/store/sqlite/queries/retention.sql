-- name: is_over
-- Of a task in a state that nobody brings it out of, but for an operator who undoes it. What waits for a person
-- is not among them, however long it has waited.
state IN ('processed', 'undone', 'cancelled')

-- name: is_outlived
-- Whatever the undo of a task may need is still there: what it started goes after it.
task.{is_over} AND task.updated_at < :before
   AND task.key < (SELECT max(key) FROM task)
   AND NOT EXISTS (SELECT 1 FROM task AS parent WHERE parent.key = task.parent_key)
   AND NOT EXISTS (SELECT 1 FROM task AS child
                    WHERE child.parent_key = task.key
                      AND NOT (child.{is_over} AND child.updated_at < :before))

-- name: tasks_from
-- In the order in which they were entered, which is that of their keys: no index is needed for it, and who
-- ends a task pays nothing.
SELECT key, created_at, {is_outlived} FROM task WHERE key > :after ORDER BY key LIMIT :limit;

-- name: outlived_tasks
SELECT key FROM task WHERE key IN (SELECT value FROM json_each(:keys)) AND {is_outlived};

-- name: prune_steps
DELETE FROM step WHERE task_key IN (SELECT value FROM json_each(:keys));

-- name: prune_signals
DELETE FROM signal WHERE task_key IN (SELECT value FROM json_each(:keys));

-- name: prune_payloads
DELETE FROM payload WHERE task_key IN (SELECT value FROM json_each(:keys));

-- name: prune_told
DELETE FROM told WHERE task_key IN (SELECT value FROM json_each(:keys));

-- name: prune_requests
DELETE FROM agent_request WHERE task_key IN (SELECT value FROM json_each(:keys));

-- name: prune_tasks
DELETE FROM task WHERE key IN (SELECT value FROM json_each(:keys));

-- name: alert_is_outlived
alert.acknowledged_at IS NOT NULL AND alert.acknowledged_at < :before AND alert.id < (SELECT max(id) FROM alert)

-- name: alerts_from
SELECT id, at, {alert_is_outlived} FROM alert WHERE id > :after ORDER BY id LIMIT :limit;

-- name: prune_alerts
DELETE FROM alert WHERE id IN (SELECT value FROM json_each(:keys)) AND {alert_is_outlived}
RETURNING id;
