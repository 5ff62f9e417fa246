-- name: task_columns
key, id, workflow, version, state, input, output, error, complete_by, hard_end, locked_by, lock_number,
failure_count, crash_count, wake_at, parked, request, reply_to, attributes::text, parent_key, parent_step,
created_at, updated_at

-- name: task_columns_light
-- For listings: without the values that can be large.
key, id, workflow, version, state, ''::bytea, NULL::bytea, error, complete_by, hard_end, locked_by, lock_number,
failure_count, crash_count, wake_at, parked, request, reply_to, attributes::text, parent_key, parent_step,
created_at, updated_at

-- name: insert_task
-- An id that is taken inserts nothing; the caller then looks at what is there.
INSERT INTO {schema}.task (id, workflow, version, input, hard_end, reply_to, attributes, parent_key,
                           parent_step, created_at, state, updated_at)
SELECT id, workflow, version, input, hard_end, reply_to, attributes::jsonb, parent_key,
       parent_step, created_at, 'pending', created_at
  FROM unnest(:id::text[], :workflow::text[], :version::bigint[], :input::bytea[], :hard_end::timestamptz[],
              :reply_to::text[], :attributes::text[], :parent_key::bigint[], :parent_step::text[],
              :created_at::timestamptz[])
       AS new (id, workflow, version, input, hard_end, reply_to, attributes, parent_key, parent_step, created_at)
ON CONFLICT (id) DO NOTHING
RETURNING id, key;

-- name: tasks_by_id
SELECT {task_columns} FROM {schema}.task WHERE id = ANY (:ids::text[]);

-- name: task_states
SELECT id, state FROM {schema}.task WHERE id = ANY (:ids::text[]);

-- name: tasks_by_key
-- How they stand, not what they hold: nobody who asks by key needs the values.
SELECT {task_columns_light} FROM {schema}.task WHERE key = ANY (:keys::bigint[]);

-- name: lock_numbers
-- The fence of a whole batch in one read: whose each task is, and under which lock. They stay locked
-- until the commit, in the order of their keys, so that no two transactions wait for each other.
SELECT key, locked_by, lock_number FROM {schema}.task WHERE key = ANY (:keys::bigint[])
 ORDER BY key FOR UPDATE;

-- name: claim_tasks
-- Oldest first within each workflow, so that nothing starves; what another scheduler is just claiming is
-- skipped, not waited for. The outer LIMIT stops the search, workflow by workflow: no more is locked
-- than is claimed. An undo that nobody holds is claimed like a pending task and stays in its state.
-- What is paused is left alone, undos as well.
WITH next (task_key, allowance) AS MATERIALIZED (
    SELECT found.key, run.allowance
      FROM unnest(:workflows::text[], :versions::bigint[], :allowances::interval[])
           AS run (workflow, version, allowance)
     CROSS JOIN LATERAL (
           SELECT key FROM {schema}.task
            WHERE task.workflow = run.workflow AND task.version = run.version
              AND locked_by IS NULL AND NOT parked AND state IN ('pending', 'undoing')
            ORDER BY key
            LIMIT :limit
              FOR UPDATE SKIP LOCKED) AS found
     WHERE run.workflow NOT IN (SELECT name FROM {schema}.control WHERE subject = 'workflow' AND paused)
     LIMIT :limit)
UPDATE {schema}.task
   SET state = CASE state WHEN 'pending' THEN 'processing' ELSE state END,
       locked_by = :owner, lock_number = lock_number + 1, complete_by = {now} + next.allowance,
       wake_at = NULL, updated_at = {now}
  FROM next
 WHERE key = task_key
RETURNING {task_columns};

-- name: put_task
-- A request stays until it is answered or too late: one that arrived after the holder last looked
-- must not be overwritten.
UPDATE {schema}.task
   SET state = new.state, output = new.output, error = new.error, complete_by = new.complete_by,
       locked_by = new.locked_by, lock_number = new.lock_number, failure_count = new.failure_count,
       crash_count = new.crash_count, wake_at = new.wake_at, parked = new.parked, updated_at = new.updated_at,
       request = CASE WHEN new.state IN ('processing', 'waiting', 'pending', 'error')
                       AND task.request IS DISTINCT FROM new.answered THEN task.request END
  FROM unnest(:key::bigint[], :state::text[], :output::bytea[], :error::bytea[], :complete_by::timestamptz[],
              :locked_by::text[], :lock_number::bigint[], :failure_count::bigint[], :crash_count::bigint[],
              :wake_at::timestamptz[], :parked::boolean[], :updated_at::timestamptz[], :answered::text[])
       AS new (key, state, output, error, complete_by, locked_by, lock_number, failure_count, crash_count,
               wake_at, parked, updated_at, answered)
 WHERE task.key = new.key;

-- name: put_request
UPDATE {schema}.task SET request = :request WHERE key = :key;

-- name: unpark_called
-- What calls a parked task: a request, a signal it waits for, a child that settled. Asked when a
-- signal arrives, and when a run parks: what called between its last look and its parking found it
-- busy and woke nobody. An undo waits for no signal, whatever its journal still shows as running.
UPDATE {schema}.task
   SET state = CASE state WHEN 'waiting' THEN 'pending' ELSE state END, parked = false, wake_at = NULL,
       updated_at = :now
 WHERE key = ANY (:keys::bigint[]) AND parked
   AND (request IS NOT NULL
        OR state = 'waiting'
           AND EXISTS (SELECT 1 FROM {schema}.step JOIN {schema}.signal
                           ON signal.task_key = step.task_key AND signal.name = step.operation
                        WHERE step.task_key = task.key AND step.kind = 'signal' AND step.state = 'running'
                          AND signal.consumed_by IS NULL)
        OR EXISTS (SELECT 1 FROM {schema}.task AS child
                     JOIN {schema}.step ON step.task_key = child.parent_key AND step.key = child.parent_step
                    WHERE child.parent_key = task.key
                      AND (step.state = 'running' AND child.state IN ('processed', 'undone', 'undo_failed', 'cancelled')
                           OR step.state = 'undoing' AND child.state IN ('undone', 'undo_failed', 'cancelled'))));

-- name: obey_requests
-- A request reached the row just before its run stopped in error: the next holder obeys it.
UPDATE {schema}.task SET state = 'pending', updated_at = :now
 WHERE key = ANY (:keys::bigint[]) AND state = 'error' AND request IS NOT NULL;

-- name: wake_tasks
-- A child settled.
UPDATE {schema}.task
   SET state = CASE state WHEN 'waiting' THEN 'pending' ELSE state END,
       parked = false, wake_at = NULL, updated_at = :now
 WHERE key = ANY (:keys::bigint[]) AND parked;

-- name: task_filter
key < :before
   AND (:workflow::text IS NULL OR workflow = :workflow)
   AND (:created_after::timestamptz IS NULL OR created_at > :created_after)
   AND (:created_before::timestamptz IS NULL OR created_at < :created_before)
   AND (:attribute::text IS NULL OR attributes ->> :attribute = :value::text)

-- name: list_tasks
-- Walks back from the newest: what is asked for here is met often on that way. What would be met
-- rarely among finished tasks has a query, and an index, of its own below.
SELECT {task_columns_light} FROM {schema}.task
 WHERE (:states::text[] IS NULL OR state = ANY (:states))
   AND key > :after AND {task_filter}
 ORDER BY key DESC
 LIMIT :limit;

-- name: list_pending_tasks
-- The conditions repeat the index's own: that is how PostgreSQL knows that the index holds every row
-- that is asked for. (The same below.)
SELECT {task_columns_light} FROM {schema}.task
 WHERE locked_by IS NULL AND NOT parked AND state IN ('pending', 'undoing') AND state = 'pending'
   AND key > :after AND {task_filter}
 ORDER BY key DESC
 LIMIT :limit;

-- name: list_processing_tasks
-- A sum has no index: the way along all keys, which ends at either side, would else look shorter than it is.
-- There are no more of these than are in flight.
SELECT {task_columns_light} FROM {schema}.task
 WHERE locked_by IS NOT NULL AND state = 'processing'
   AND key + 0 > :after AND {task_filter}
 ORDER BY key DESC
 LIMIT :limit;

-- name: list_rare_tasks
SELECT {task_columns_light} FROM {schema}.task
 WHERE state IN ('waiting', 'error', 'undoing', 'undone', 'undo_failed', 'cancelled') AND state = :state
   AND key > :after AND {task_filter}
 ORDER BY key DESC
 LIMIT :limit;

-- name: count_claimable
-- No further than asked for: who asks wants to know whether there are too many, not how many too many.
SELECT count(*) FROM (
       SELECT 1 FROM {schema}.task
        WHERE locked_by IS NULL AND NOT parked AND state IN ('pending', 'undoing')
        LIMIT :at_most) AS waiting;

-- name: count_claimable_of
SELECT count(*) FROM (
       SELECT 1 FROM {schema}.task
        WHERE locked_by IS NULL AND NOT parked AND state IN ('pending', 'undoing') AND workflow = :workflow
        LIMIT :at_most) AS waiting;

-- name: task_numbers
-- Each through the index that holds such tasks, and no further than so many rows. Processed ones are in no
-- index: they are counted among the newest tasks.
SELECT 'pending' AS state, count(*) AS number, min(updated_at) AS oldest
  FROM (SELECT updated_at FROM {schema}.task
         WHERE locked_by IS NULL AND NOT parked AND state IN ('pending', 'undoing') AND state = 'pending'
         LIMIT :counted) AS found
UNION ALL
SELECT 'processing', count(*), min(updated_at)
  FROM (SELECT updated_at FROM {schema}.task
         WHERE locked_by IS NOT NULL AND state = 'processing' LIMIT :counted) AS found
UNION ALL
SELECT 'expired', count(*), min(complete_by)
  FROM (SELECT complete_by FROM {schema}.task
         WHERE locked_by IS NOT NULL AND complete_by < :now AND state = 'processing'
         LIMIT :counted) AS found
UNION ALL
SELECT 'processed', count(*), min(updated_at)
  FROM (SELECT state, updated_at FROM {schema}.task ORDER BY key DESC LIMIT :counted) AS newest
 WHERE state = 'processed'
UNION ALL
SELECT 'waiting', count(*), min(updated_at)
  FROM (SELECT updated_at FROM {schema}.task WHERE state = 'waiting'
         ORDER BY key LIMIT :counted) AS found
UNION ALL
SELECT 'error', count(*), min(updated_at)
  FROM (SELECT updated_at FROM {schema}.task WHERE state = 'error'
         ORDER BY key LIMIT :counted) AS found
UNION ALL
SELECT 'undoing', count(*), min(updated_at)
  FROM (SELECT updated_at FROM {schema}.task WHERE state = 'undoing'
         ORDER BY key LIMIT :counted) AS found
UNION ALL
SELECT 'undone', count(*), min(updated_at)
  FROM (SELECT updated_at FROM {schema}.task WHERE state = 'undone'
         ORDER BY key LIMIT :counted) AS found
UNION ALL
SELECT 'undo_failed', count(*), min(updated_at)
  FROM (SELECT updated_at FROM {schema}.task WHERE state = 'undo_failed'
         ORDER BY key LIMIT :counted) AS found
UNION ALL
SELECT 'cancelled', count(*), min(updated_at)
  FROM (SELECT updated_at FROM {schema}.task WHERE state = 'cancelled'
         ORDER BY key LIMIT :counted) AS found;
