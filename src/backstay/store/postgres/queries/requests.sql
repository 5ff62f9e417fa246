-- name: request_columns
request.task_key, request.step, request.undo, request.attempt, request.claimed_by, request.withdrawn,
request.broken_off, request.reply, request.complete_by

-- name: is_under_way
-- Of a request that somebody took up: nobody knows yet what it came to.
request.reply IS NULL AND request.broken_off IS NULL

-- name: is_waited_for
-- Whatever became of its task since it was sent, nothing is begun that nobody waits for.
EXISTS (SELECT 1 FROM {schema}.step JOIN {schema}.task ON task.key = step.task_key
         WHERE step.task_key = request.task_key AND step.key = request.step
           AND CASE WHEN request.undo
               THEN task.state = 'undoing' AND step.state = 'undoing' AND step.undo_attempt = request.attempt
               ELSE task.state IN ('pending', 'processing') AND step.state = 'running'
                    AND step.attempt = request.attempt END)

-- name: requests_wait
SELECT EXISTS (SELECT 1 FROM {schema}.agent_request AS request
                WHERE request.agent = ANY (:agents::text[]) AND request.claimed_by IS NULL
                  AND request.complete_by > {now} AND {is_waited_for});

-- name: claim_requests
-- What another host is just claiming is skipped, not waited for.
WITH next AS MATERIALIZED (
    SELECT found.task_key, found.step
      FROM unnest(:agents::text[], :rooms::bigint[]) AS wanted (agent, room)
     CROSS JOIN LATERAL (
           SELECT request.task_key, request.step FROM {schema}.agent_request AS request
            WHERE request.agent = wanted.agent AND request.claimed_by IS NULL
              AND request.complete_by > {now} AND {is_waited_for}
            ORDER BY request.number
            LIMIT wanted.room
              FOR UPDATE SKIP LOCKED) AS found)
UPDATE {schema}.agent_request AS request SET claimed_by = :owner
  FROM next
 WHERE request.task_key = next.task_key AND request.step = next.step
RETURNING request.number, request.task_key, request.step, request.undo, request.attempt, request.body,
          extract(epoch FROM request.complete_by - {now})::float8;

-- name: release_requests
UPDATE {schema}.agent_request AS request SET claimed_by = NULL
  FROM unnest(:task_key::bigint[], :step::text[], :undo::boolean[], :attempt::bigint[], :owner::text[])
       AS one (task_key, step, undo, attempt, owner)
 WHERE request.task_key = one.task_key AND request.step = one.step AND request.undo = one.undo
   AND request.attempt = one.attempt AND request.claimed_by = one.owner AND NOT request.withdrawn
   AND {is_under_way}
RETURNING request.task_key;

-- name: held_requests
SELECT {request_columns} FROM {schema}.agent_request AS request
 WHERE request.claimed_by = :owner AND {is_under_way};

-- name: requests_of
SELECT {request_columns} FROM {schema}.agent_request AS request
 WHERE request.task_key = ANY (:keys::bigint[]);

-- name: break_off_requests
-- Their host has ended. What was withdrawn has stopped by that; the others are for their schedulers to judge.
WITH held AS MATERIALIZED (
    SELECT request.task_key, request.step, request.withdrawn FROM {schema}.agent_request AS request
     WHERE request.claimed_by = :id AND {is_under_way}
     ORDER BY request.task_key, request.step FOR UPDATE),
gone AS (
    DELETE FROM {schema}.agent_request AS request USING held
     WHERE request.task_key = held.task_key AND request.step = held.step AND held.withdrawn),
broken_off AS (
    UPDATE {schema}.agent_request AS request SET broken_off = :how FROM held
     WHERE request.task_key = held.task_key AND request.step = held.step AND NOT held.withdrawn
    RETURNING request.task_key, request.step, request.agent)
SELECT held.task_key, task.workflow, broken_off.agent
  FROM held JOIN {schema}.task ON task.key = held.task_key
  LEFT JOIN broken_off ON broken_off.task_key = held.task_key AND broken_off.step = held.step;

-- name: forget_requests
-- Left behind by tasks that ended without them; nobody asks for them any more.
DELETE FROM {schema}.agent_request
 WHERE (task_key, step) IN (SELECT task_key, step FROM {schema}.agent_request
                             WHERE complete_by < {now} - :kept::interval LIMIT :limit
                               FOR UPDATE SKIP LOCKED);

-- name: forget_requests_of
DELETE FROM {schema}.agent_request WHERE task_key = :task_key;
