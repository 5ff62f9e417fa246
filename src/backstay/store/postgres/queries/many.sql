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

-- name: send_requests
INSERT INTO {schema}.agent_request (task_key, step, undo, agent, attempt, complete_by, body)
SELECT task_key, step, undo, agent, attempt, {micros} complete_by, body
  FROM unnest(:task_key::bigint[], :step::text[], :undo::boolean[], :agent::text[], :attempt::bigint[],
              :complete_by::bigint[], :body::text[])
       AS new (task_key, step, undo, agent, attempt, complete_by, body)
ON CONFLICT (task_key, step) DO UPDATE
   SET number = excluded.number, undo = excluded.undo, agent = excluded.agent, attempt = excluded.attempt,
       complete_by = excluded.complete_by, body = excluded.body, reply = NULL, claimed_by = NULL,
       withdrawn = false, broken_off = NULL;

-- name: lock_requests
-- In the order of their keys, as everybody does who touches more than one. (The same below.)
SELECT {request_columns} FROM {schema}.agent_request AS request
  JOIN unnest(:task_key::bigint[], :step::text[], :undo::boolean[], :attempt::bigint[])
       AS one (task_key, step, undo, attempt)
    ON request.task_key = one.task_key AND request.step = one.step AND request.undo = one.undo
   AND request.attempt = one.attempt
 ORDER BY request.task_key, request.step FOR UPDATE OF request;

-- name: close_requests
-- Removes them; one that somebody works on is withdrawn instead. Of each whether that was so.
WITH closed AS MATERIALIZED (
    SELECT request.task_key, request.step, request.claimed_by IS NOT NULL AND {is_under_way} AS at_work
      FROM {schema}.agent_request AS request
      JOIN unnest(:task_key::bigint[], :step::text[], :undo::boolean[], :attempt::bigint[])
           AS one (task_key, step, undo, attempt)
        ON request.task_key = one.task_key AND request.step = one.step AND request.undo = one.undo
       AND request.attempt = one.attempt
     ORDER BY request.task_key, request.step FOR UPDATE OF request),
gone AS (
    DELETE FROM {schema}.agent_request AS request USING closed
     WHERE request.task_key = closed.task_key AND request.step = closed.step AND NOT closed.at_work),
withdrawn AS (
    UPDATE {schema}.agent_request AS request SET withdrawn = true FROM closed
     WHERE request.task_key = closed.task_key AND request.step = closed.step AND closed.at_work)
SELECT at_work FROM closed;

-- name: answer_requests
WITH answered AS MATERIALIZED (
    SELECT request.task_key, request.step, request.undo, request.attempt, request.withdrawn, one.reply
      FROM {schema}.agent_request AS request
      JOIN unnest(:task_key::bigint[], :step::text[], :undo::boolean[], :attempt::bigint[], :reply::text[])
           AS one (task_key, step, undo, attempt, reply)
        ON request.task_key = one.task_key AND request.step = one.step AND request.undo = one.undo
       AND request.attempt = one.attempt
     WHERE request.reply IS NULL
     ORDER BY request.task_key, request.step FOR UPDATE OF request),
gone AS (
    DELETE FROM {schema}.agent_request AS request USING answered
     WHERE request.task_key = answered.task_key AND request.step = answered.step AND answered.withdrawn),
written AS (
    UPDATE {schema}.agent_request AS request SET reply = answered.reply, broken_off = NULL FROM answered
     WHERE request.task_key = answered.task_key AND request.step = answered.step
       AND NOT answered.withdrawn AND answered.reply IS NOT NULL)
SELECT task_key, step, undo, attempt, NOT withdrawn AND reply IS NOT NULL FROM answered;
