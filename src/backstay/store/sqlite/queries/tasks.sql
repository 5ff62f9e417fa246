-- name: task_columns
key, id, workflow, version, state, input, output, error, complete_by, hard_end, locked_by, lock_number,
failure_count, crash_count, wake_at, parked, request, reply_to, attributes, parent_key, parent_step,
created_at, updated_at

-- name: task_columns_light
-- For listings: without the values that can be large.
key, id, workflow, version, state, x'', NULL, error, complete_by, hard_end, locked_by, lock_number,
failure_count, crash_count, wake_at, parked, request, reply_to, attributes, parent_key, parent_step,
created_at, updated_at

-- name: insert_task
-- An id that is taken inserts nothing; the caller then looks at what is there.
INSERT INTO task (id, workflow, version, input, hard_end, reply_to, attributes, parent_key, parent_step,
                  created_at, state, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'pending', ?10)
ON CONFLICT (id) DO NOTHING
RETURNING key;

-- name: tasks_by_id
SELECT {task_columns} FROM task WHERE id IN (SELECT value FROM json_each(:ids));

-- name: task_states
SELECT id, state FROM task WHERE id IN (SELECT value FROM json_each(:ids));

-- name: tasks_by_key
-- How they stand, not what they hold: nobody who asks by key needs the values.
SELECT {task_columns_light} FROM task WHERE key IN (SELECT value FROM json_each(:keys));

-- name: lock_numbers
-- The fence of a whole batch in one read: whose each task is, and under which lock.
-- One row comes back: fetching a row costs a hand-over of the interpreter lock, thousands cost thousands.
SELECT json_group_array(json_array(key, locked_by, lock_number)) FROM task
 WHERE key IN (SELECT value FROM json_each(:keys));

-- name: claim_tasks
-- Those that find_claimable found, in the same statement. An undo that nobody holds is claimed like a pending
-- task and stays in its state.
UPDATE task
   SET state = CASE state WHEN 'pending' THEN 'processing' ELSE state END,
       locked_by = NEW.claimer, lock_number = lock_number + 1,
       complete_by = (SELECT complete_by FROM claimed WHERE claimed.key = task.key),
       wake_at = NULL, updated_at = NEW.claimed_at
 WHERE NEW.room IS NOT NULL AND key IN (SELECT key FROM claimed);

-- name: put_task
-- A request stays until it is answered or too late: one that arrived after the holder last looked
-- must not be overwritten.
UPDATE task
   SET state = row.state, output = row.output, error = row.error, complete_by = row.complete_by,
       locked_by = row.locked_by, lock_number = row.lock_number, failure_count = row.failure_count,
       crash_count = row.crash_count, wake_at = row.wake_at, parked = row.parked, updated_at = row.updated_at,
       request = CASE WHEN row.state IN ('processing', 'waiting', 'pending', 'error')
                       AND request IS NOT row.answered THEN request END
  FROM (SELECT value ->> 0 AS key, value ->> 1 AS state, CAST(value ->> 2 AS BLOB) AS output,
               CAST(value ->> 3 AS BLOB) AS error, value ->> 4 AS complete_by, value ->> 5 AS locked_by,
               value ->> 6 AS lock_number, value ->> 7 AS failure_count, value ->> 8 AS crash_count,
               value ->> 9 AS wake_at, value ->> 10 AS parked, value ->> 11 AS updated_at, value ->> 12 AS answered
          FROM json_each(NEW.tasks)) AS row
 WHERE task.key = row.key;

-- name: put_request
UPDATE task SET request = :request WHERE key = :key;

-- name: unpark_called
-- What calls a parked task: a request, a signal it waits for, a child that settled. Asked when a
-- signal arrives, and when a run parks: what called between its last look and its parking found it
-- busy and woke nobody. An undo waits for no signal, whatever its journal still shows as running.
UPDATE task
   SET state = CASE state WHEN 'waiting' THEN 'pending' ELSE state END, parked = 0, wake_at = NULL,
       updated_at = :now
 WHERE key IN (SELECT value FROM json_each(:keys)) AND parked = 1
   AND (request IS NOT NULL
        OR state = 'waiting'
           AND EXISTS (SELECT 1 FROM step JOIN signal ON signal.task_key = step.task_key AND signal.name = step.operation
                        WHERE step.task_key = task.key AND step.kind = 'signal' AND step.state = 'running'
                          AND signal.consumed_by IS NULL)
        OR EXISTS (SELECT 1 FROM task AS child
                     JOIN step ON step.task_key = child.parent_key AND step.key = child.parent_step
                    WHERE child.parent_key = task.key
                      AND (step.state = 'running' AND child.state IN ('processed', 'undone', 'undo_failed', 'cancelled')
                           OR step.state = 'undoing' AND child.state IN ('undone', 'undo_failed', 'cancelled'))));

-- name: obey_requests
-- A request reached the row just before its run stopped in error: the next holder obeys it.
UPDATE task SET state = 'pending', updated_at = :now
 WHERE key IN (SELECT value FROM json_each(:keys)) AND state = 'error' AND request IS NOT NULL;

-- name: wake_tasks
-- A child settled.
UPDATE task
   SET state = CASE state WHEN 'waiting' THEN 'pending' ELSE state END,
       parked = 0, wake_at = NULL, updated_at = :now
 WHERE key IN (SELECT value FROM json_each(:keys)) AND parked = 1;

-- name: task_filter
key < :before AND key > :after
   AND (:workflow IS NULL OR workflow = :workflow)
   AND (:created_after IS NULL OR created_at > :created_after)
   AND (:created_before IS NULL OR created_at < :created_before)
   AND (:attribute IS NULL OR EXISTS (
       SELECT 1 FROM json_each(attributes) AS pair WHERE pair.key = :attribute AND pair.value = :value))

-- name: list_tasks
-- Walks back from the newest: what is asked for here is met often on that way. What would be met
-- rarely among finished tasks has a query, and an index, of its own below.
SELECT {task_columns_light} FROM task
 WHERE (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
   AND {task_filter}
 ORDER BY key DESC
 LIMIT :limit;

-- name: list_pending_tasks
-- The conditions repeat the index's own: that is how SQLite knows that the index holds every row
-- that is asked for. (The same below.)
SELECT {task_columns_light} FROM task INDEXED BY task_claimable
 WHERE locked_by IS NULL AND parked = 0 AND state IN ('pending', 'undoing') AND state = 'pending'
   AND {task_filter}
 ORDER BY key DESC
 LIMIT :limit;

-- name: list_processing_tasks
SELECT {task_columns_light} FROM task INDEXED BY task_locked
 WHERE locked_by IS NOT NULL AND state = 'processing'
   AND {task_filter}
 ORDER BY key DESC
 LIMIT :limit;

-- name: list_rare_tasks
SELECT {task_columns_light} FROM task INDEXED BY task_unusual
 WHERE state IN ('waiting', 'error', 'undoing', 'undone', 'undo_failed', 'cancelled') AND state = :state
   AND {task_filter}
 ORDER BY key DESC
 LIMIT :limit;

-- name: count_claimable
-- No further than asked for: who asks wants to know whether there are too many, not how many too many.
SELECT count(*) FROM (
       SELECT 1 FROM task INDEXED BY task_claimable
        WHERE locked_by IS NULL AND parked = 0 AND state IN ('pending', 'undoing')
        LIMIT :at_most);

-- name: count_claimable_of
SELECT count(*) FROM (
       SELECT 1 FROM task INDEXED BY task_claimable
        WHERE locked_by IS NULL AND parked = 0 AND state IN ('pending', 'undoing') AND workflow = :workflow
        LIMIT :at_most);

-- name: task_numbers
-- Each through the index that holds such tasks, and no further than so many rows. Processed ones are in no
-- index: they are counted among the newest tasks.
SELECT 'pending' AS state, count(*) AS number, min(updated_at) AS oldest
  FROM (SELECT updated_at FROM task INDEXED BY task_claimable
         WHERE locked_by IS NULL AND parked = 0 AND state IN ('pending', 'undoing') AND state = 'pending'
         LIMIT :counted)
UNION ALL
SELECT 'processing', count(*), min(updated_at)
  FROM (SELECT updated_at FROM task INDEXED BY task_locked
         WHERE locked_by IS NOT NULL AND state = 'processing' LIMIT :counted)
UNION ALL
SELECT 'expired', count(*), min(complete_by)
  FROM (SELECT complete_by FROM task INDEXED BY task_locked
         WHERE locked_by IS NOT NULL AND complete_by < :now AND state = 'processing'
         LIMIT :counted)
UNION ALL
SELECT 'processed', count(*), min(updated_at)
  FROM (SELECT state, updated_at FROM task ORDER BY key DESC LIMIT :counted)
 WHERE state = 'processed'
UNION ALL
SELECT 'waiting', count(*), min(updated_at)
  FROM (SELECT updated_at FROM task INDEXED BY task_unusual
         WHERE state IN ('waiting', 'error', 'undoing', 'undone', 'undo_failed', 'cancelled')
           AND state = 'waiting' ORDER BY key LIMIT :counted)
UNION ALL
SELECT 'error', count(*), min(updated_at)
  FROM (SELECT updated_at FROM task INDEXED BY task_unusual
         WHERE state IN ('waiting', 'error', 'undoing', 'undone', 'undo_failed', 'cancelled')
           AND state = 'error' ORDER BY key LIMIT :counted)
UNION ALL
SELECT 'undoing', count(*), min(updated_at)
  FROM (SELECT updated_at FROM task INDEXED BY task_unusual
         WHERE state IN ('waiting', 'error', 'undoing', 'undone', 'undo_failed', 'cancelled')
           AND state = 'undoing' ORDER BY key LIMIT :counted)
UNION ALL
SELECT 'undone', count(*), min(updated_at)
  FROM (SELECT updated_at FROM task INDEXED BY task_unusual
         WHERE state IN ('waiting', 'error', 'undoing', 'undone', 'undo_failed', 'cancelled')
           AND state = 'undone' ORDER BY key LIMIT :counted)
UNION ALL
SELECT 'undo_failed', count(*), min(updated_at)
  FROM (SELECT updated_at FROM task INDEXED BY task_unusual
         WHERE state IN ('waiting', 'error', 'undoing', 'undone', 'undo_failed', 'cancelled')
           AND state = 'undo_failed' ORDER BY key LIMIT :counted)
UNION ALL
SELECT 'cancelled', count(*), min(updated_at)
  FROM (SELECT updated_at FROM task INDEXED BY task_unusual
         WHERE state IN ('waiting', 'error', 'undoing', 'undone', 'undo_failed', 'cancelled')
           AND state = 'cancelled' ORDER BY key LIMIT :counted);
