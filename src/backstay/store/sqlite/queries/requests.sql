-- name: request_columns
request.task_key, request.step, request."undo", request.attempt, request.claimed_by, request.withdrawn,
request.broken_off, request.reply, request.complete_by

-- name: is_under_way
-- Of a request that somebody took up: nobody knows yet what it came to.
request.reply IS NULL AND request.broken_off IS NULL

-- name: is_waited_for
-- Whatever became of its task since it was sent, nothing is begun that nobody waits for.
EXISTS (SELECT 1 FROM step JOIN task ON task.key = step.task_key
         WHERE step.task_key = request.task_key AND step.key = request.step
           AND CASE WHEN request."undo"
               THEN task.state = 'undoing' AND step.state = 'undoing' AND step.undo_attempt = request.attempt
               ELSE task.state IN ('pending', 'processing') AND step.state = 'running'
                    AND step.attempt = request.attempt END)

-- name: requests_wait
SELECT EXISTS (SELECT 1 FROM agent_request AS request
                WHERE request.agent IN (SELECT value FROM json_each(:agents)) AND request.claimed_by IS NULL
                  AND request.complete_by > :now AND {is_waited_for});

-- name: claim_requests
UPDATE agent_request SET claimed_by = :owner
 WHERE number IN (
       SELECT request.number FROM agent_request AS request INDEXED BY agent_request_open
        WHERE request.agent = :agent AND request.claimed_by IS NULL
          AND request.complete_by > :now AND {is_waited_for}
        ORDER BY request.number
        LIMIT :room)
RETURNING number, task_key, step, "undo", attempt, body, complete_by;

-- name: release_requests
UPDATE agent_request AS request SET claimed_by = NULL
 WHERE request.task_key = :task_key AND request.step = :step AND request."undo" = :undo
   AND request.attempt = :attempt AND request.claimed_by = :owner AND request.withdrawn = 0 AND {is_under_way};

-- name: held_requests
SELECT {request_columns} FROM agent_request AS request
 WHERE request.claimed_by = :owner AND {is_under_way};

-- name: requests_of
SELECT {request_columns} FROM agent_request AS request
 WHERE request.task_key IN (SELECT value FROM json_each(:keys));

-- name: break_off_requests
-- Their host has ended: they are for their schedulers to judge.
UPDATE agent_request AS request SET broken_off = :how
 WHERE request.claimed_by = :id AND {is_under_way}
RETURNING task_key, (SELECT workflow FROM task WHERE task.key = task_key), agent;

-- name: forget_requests
-- Left behind by tasks that ended without them; nobody asks for them any more.
DELETE FROM agent_request
 WHERE number IN (SELECT number FROM agent_request WHERE complete_by < :before LIMIT :limit);

-- name: forget_requests_of
DELETE FROM agent_request WHERE task_key = :task_key;
