-- What most batches come down to, in one round trip.

-- name: write_batch
-- The fences first: the instance, then its tasks in the order of their keys, as everybody does. Nothing is
-- written unless each of the tasks is its own, under the lock named for it, and free to be locked. What is
-- written comes as JSON, which costs the driver least. The mark of the transaction goes along.
WITH marked AS (
    INSERT INTO {schema}.writer (id, number, used_at) VALUES (:writer, :number, clock_timestamp())
    ON CONFLICT (id) DO UPDATE SET number = excluded.number, used_at = excluded.used_at),
owner AS MATERIALIZED (
    SELECT id FROM {schema}.instance WHERE id = :owner AND epoch = :epoch AND live FOR KEY SHARE),
held AS MATERIALIZED (
    SELECT found.key
      FROM owner CROSS JOIN LATERAL (
           SELECT key, locked_by, lock_number FROM {schema}.task WHERE key = ANY (:keys::bigint[])
            ORDER BY key FOR UPDATE SKIP LOCKED) AS found
     WHERE found.locked_by = owner.id AND found.lock_number = (:locks::jsonb ->> found.key::text)::bigint),
fence AS MATERIALIZED (
    SELECT count(*) = cardinality(:keys::bigint[]) AS passed FROM held),
began AS (
    INSERT INTO {schema}.step (task_key, key, agent, operation, complete_by, input, started_at, undo, pivot,
                               kind, state, attempt, failure_count, undo_attempt, undo_failures, unsure)
    SELECT (new ->> 0)::bigint, new ->> 1, new ->> 2, new ->> 3, {micros} (new ->> 4)::bigint,
           convert_to(new ->> 5, 'UTF8'), {micros} (new ->> 6)::bigint, new ->> 7, (new ->> 8)::boolean,
           'step', 'running', 1, 0, 0, 0, false
      FROM fence CROSS JOIN jsonb_array_elements(:began::jsonb) AS new
     WHERE fence.passed),
completed AS (
    UPDATE {schema}.step
       SET state = 'completed', output = convert_to(done ->> 2, 'UTF8'), ended_at = {micros} (done ->> 3)::bigint,
           position = (done ->> 4)::bigint
      FROM fence CROSS JOIN jsonb_array_elements(:completed::jsonb) AS done
     WHERE fence.passed AND step.task_key = (done ->> 0)::bigint AND step.key = done ->> 1),
processed AS (
    UPDATE {schema}.task
       SET state = 'processed', output = convert_to(done ->> 1, 'UTF8'), error = NULL, complete_by = NULL,
           locked_by = NULL, failure_count = (done ->> 2)::bigint, crash_count = (done ->> 3)::bigint,
           wake_at = NULL, parked = false, updated_at = {micros} (done ->> 4)::bigint, request = NULL
      FROM fence CROSS JOIN jsonb_array_elements(:processed::jsonb) AS done
     WHERE fence.passed AND task.key = (done ->> 0)::bigint)
SELECT passed FROM fence;
