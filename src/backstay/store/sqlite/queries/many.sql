-- Many rows with few calls: each row that the driver fetches costs a hand-over of the interpreter lock.

-- name: highest_key
SELECT coalesce(max(key), 0) FROM task;

-- name: insert_tasks
-- Under keys that the writer chose: nobody else writes.
INSERT INTO task (key, id, workflow, version, input, hard_end, reply_to, attributes, parent_key, parent_step,
                  created_at, state, updated_at)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, CAST(value ->> 4 AS BLOB), value ->> 5, value ->> 6,
       value ->> 7, value ->> 8, value ->> 9, value ->> 10, 'pending', value ->> 10
  FROM json_each(:rows)
 WHERE true
ON CONFLICT (id) DO NOTHING;

-- name: begin_steps
-- As JSON in one text: what is bound value by value holds the interpreter lock all the while.
INSERT INTO step (task_key, key, agent, operation, complete_by, input, started_at, "undo", pivot,
                  kind, state, attempt, failure_count, undo_attempt, undo_failures, unsure)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, CAST(value ->> 5 AS BLOB), value ->> 6,
       value ->> 7, value ->> 8, 'step', 'running', 1, 0, 0, 0, 0
  FROM json_each(:rows);

-- name: complete_steps
UPDATE step
   SET state = 'completed', output = CAST(new.value ->> 2 AS BLOB), ended_at = new.value ->> 3,
       position = new.value ->> 4
  FROM json_each(:rows) AS new
 WHERE step.task_key = new.value ->> 0 AND step.key = new.value ->> 1;

-- name: claimable_keys
-- Oldest first, so that nothing starves. What is paused is left alone, undos as well.
SELECT json_group_array(key) FROM (
       SELECT key FROM task INDEXED BY task_claimable
        WHERE workflow = :workflow AND version = :version
          AND locked_by IS NULL AND parked = 0 AND state IN ('pending', 'undoing')
          AND NOT EXISTS (SELECT 1 FROM control WHERE subject = 'workflow' AND name = :workflow AND paused = 1)
        ORDER BY key
        LIMIT :limit);

-- name: claimed_tasks
-- The columns of task_columns; JSON that is kept as it was encoded travels as text.
SELECT json_group_array(json_array(
           key, id, workflow, version, state, CAST(input AS TEXT), CAST(output AS TEXT), CAST(error AS TEXT),
           complete_by, hard_end, locked_by, lock_number, failure_count, crash_count, wake_at, parked, request,
           reply_to, attributes, parent_key, parent_step, created_at, updated_at))
  FROM (SELECT * FROM task WHERE key IN (SELECT value FROM json_each(:keys)) ORDER BY key);
