-- Many rows with few calls: after each statement, and each row that the driver fetches, the writer has to
-- get the interpreter lock back from a busy event loop.

-- name: batch_view
-- A batch as a row: its owner and the locks it acts under, and what is to be written, each as one text of
-- JSON. What is bound value by value holds the interpreter lock all the while.
CREATE TEMP VIEW batch AS
SELECT NULL AS owner, NULL AS epoch, NULL AS locks, NULL AS held, NULL AS began, NULL AS completed,
       NULL AS processed, NULL AS tasks, NULL AS entered;

-- name: batch_trigger
-- Writes such a row, as one statement: the interpreter lock is given up once, whatever the batch holds.
CREATE TEMP TRIGGER write_batch INSTEAD OF INSERT ON batch
BEGIN
    {check_fences};
    {begin_steps};
    {complete_steps};
    {end_tasks};
    {put_task};
    {insert_tasks};
END;

-- name: write_batch
INSERT INTO batch VALUES
       (:owner, :epoch, :locks, :held, :began, :completed, :processed, :tasks, :entered);

-- name: check_fences
-- All at once: whether its owner lives, and how many of the tasks are its own under the lock named for each.
-- The locks are one object, which is cheaper to take apart than a list of pairs.
SELECT RAISE(ABORT, 'not all of the batch acts under a current lock')
 WHERE NEW.owner IS NOT NULL
   AND (NEW.epoch IS NOT (SELECT epoch FROM instance WHERE id = NEW.owner AND live = 1)
        OR NEW.held <> (SELECT count(*) FROM json_each(NEW.locks) AS held
                          JOIN task ON task.key = CAST(held.key AS INTEGER)
                         WHERE task.locked_by = NEW.owner AND task.lock_number = held.value));

-- name: end_tasks
-- What becomes of most tasks.
UPDATE task
   SET state = 'processed', output = CAST(done.value ->> 1 AS BLOB), error = NULL, complete_by = NULL,
       locked_by = NULL, failure_count = done.value ->> 2, crash_count = done.value ->> 3, wake_at = NULL,
       parked = 0, updated_at = done.value ->> 4, request = NULL
  FROM json_each(NEW.processed) AS done
 WHERE task.key = done.value ->> 0;

-- name: insert_tasks
-- Their keys follow one another, in this order.
INSERT INTO task (id, workflow, version, input, hard_end, reply_to, attributes, parent_key, parent_step,
                  created_at, state, updated_at)
SELECT value ->> 0, value ->> 1, value ->> 2, CAST(value ->> 3 AS BLOB), value ->> 4, value ->> 5, value ->> 6,
       value ->> 7, value ->> 8, value ->> 9, 'pending', value ->> 9
  FROM json_each(NEW.entered);

-- name: key_of
SELECT key FROM task WHERE id = :id;

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
