-- Many rows with few calls: each row that the driver fetches costs a hand-over of the interpreter lock.

-- name: highest_key
SELECT coalesce(max(key), 0) FROM task;

-- name: insert_tasks
-- Under keys that the writer chose: nobody else writes.
INSERT INTO task (key, id, workflow, version, input, hard_end, reply_to, attributes, parent_key, parent_step,
                  created_at, state, updated_at)
SELECT column1, column2, column3, column4, column5, column6, column7, column8, column9, column10,
       column11, 'pending', column11
  FROM (VALUES {rows})
 WHERE true
ON CONFLICT (id) DO NOTHING;

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
