-- name: is_over
-- Of a task in a state that nobody brings it out of, but for an operator who undoes it. What waits for a person
-- is not among them, however long it has waited.
state IN ('processed', 'undone', 'cancelled')

-- name: is_outlived
-- Whatever the undo of a task may need is still there: what it started goes after it. Relatives are asked for as
-- values: of an EXISTS the server might make a table of all tasks first, since it expects to look at all of them.
task.{is_over} AND task.updated_at < :before
   AND task.key < (SELECT max(key) FROM {schema}.task)
   AND (SELECT parent.key FROM {schema}.task AS parent WHERE parent.key = task.parent_key) IS NULL
   AND (SELECT child.key FROM {schema}.task AS child
         WHERE child.parent_key = task.key
           AND NOT (child.{is_over} AND child.updated_at < :before)
         LIMIT 1) IS NULL

-- name: tasks_from
-- In the order in which they were entered, which is that of their keys: no index is needed for it, and who
-- ends a task pays nothing.
SELECT key, created_at, {is_outlived} FROM {schema}.task WHERE key > :after ORDER BY key LIMIT :limit;

-- name: outlived_tasks
-- Locked until the commit: an operator who wants to undo one of them waits, and finds it gone. One that somebody
-- is just changing is left to another time.
SELECT key FROM {schema}.task WHERE key = ANY (:keys::bigint[]) AND {is_outlived}
 ORDER BY key FOR UPDATE OF task SKIP LOCKED;

-- name: prune_steps
DELETE FROM {schema}.step WHERE task_key = ANY (:keys::bigint[]);

-- name: prune_signals
DELETE FROM {schema}.signal WHERE task_key = ANY (:keys::bigint[]);

-- name: prune_payloads
DELETE FROM {schema}.payload WHERE task_key = ANY (:keys::bigint[]);

-- name: prune_told
DELETE FROM {schema}.told WHERE task_key = ANY (:keys::bigint[]);

-- name: prune_requests
DELETE FROM {schema}.agent_request WHERE task_key = ANY (:keys::bigint[]);

-- name: prune_tasks
DELETE FROM {schema}.task WHERE key = ANY (:keys::bigint[]);

-- name: alert_is_outlived
alert.acknowledged_at IS NOT NULL AND alert.acknowledged_at < :before
   AND alert.id < (SELECT max(id) FROM {schema}.alert)

-- name: alerts_from
SELECT id, at, {alert_is_outlived} FROM {schema}.alert WHERE id > :after ORDER BY id LIMIT :limit;

-- name: prune_alerts
DELETE FROM {schema}.alert WHERE id = ANY (:keys::bigint[]) AND {alert_is_outlived}
RETURNING id;
