-- Many rows with few calls: after each statement, and each row that the driver fetches, the writer has to
-- get the interpreter lock back from a busy event loop.

-- name: batch_view
-- A batch as a row: its owner and the locks it acts under, and what is to be written, each as one text of
-- JSON. What is bound value by value holds the interpreter lock all the while.
CREATE TEMP VIEW batch AS
SELECT NULL AS owner, NULL AS epoch, NULL AS locks, NULL AS held, NULL AS began, NULL AS completed,
       NULL AS processed, NULL AS tasks, NULL AS entered, NULL AS claimer, NULL AS claimer_epoch, NULL AS runs,
       NULL AS room, NULL AS claimed_at, NULL AS sent, NULL AS closed;

-- name: claimed_table
-- What the last claim of this connection took, and under which lock. Nothing of it is in the file.
CREATE TEMP TABLE claimed (
    key         INTEGER PRIMARY KEY,
    lock_number INTEGER NOT NULL,
    complete_by INTEGER NOT NULL
);

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
    {forget_claimed};
    {find_claimable};
    {claim_tasks};
    {send_requests};
    {withdraw_closed};
    {remove_closed};
END;

-- name: write_batch
INSERT INTO batch VALUES
       (:owner, :epoch, :locks, :held, :began, :completed, :processed, :tasks, :entered, :claimer,
        :claimer_epoch, :runs, :room, :claimed_at, :sent, :closed);

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

-- name: known_tasks
-- Of those that are to be entered: which are there, and whether they are the same. One row comes back.
SELECT json_group_array(json_array(json_each.key, task.workflow = value ->> 1 AND task.input = CAST(value ->> 3 AS BLOB)))
  FROM json_each(:entered) CROSS JOIN task ON task.id = value ->> 0;

-- name: forget_claimed
DELETE FROM claimed WHERE NEW.room IS NOT NULL;

-- name: find_claimable
-- For an instance that lives, out of each workflow that it runs in the order given, and of each the oldest
-- first, so that nothing starves. What is paused is left alone, undos as well.
INSERT INTO claimed (key, lock_number, complete_by)
SELECT task.key, task.lock_number + 1, run.value ->> 2
  FROM json_each(NEW.runs) AS run CROSS JOIN task INDEXED BY task_claimable
 WHERE task.workflow = run.value ->> 0 AND task.version = run.value ->> 1
   AND task.locked_by IS NULL AND task.parked = 0 AND task.state IN ('pending', 'undoing')
   AND NOT EXISTS (SELECT 1 FROM control
                    WHERE subject = 'workflow' AND name = run.value ->> 0 AND paused = 1)
   AND EXISTS (SELECT 1 FROM instance WHERE id = NEW.claimer AND epoch = NEW.claimer_epoch AND live = 1)
 LIMIT coalesce(NEW.room, 0);

-- name: claimed_tasks
-- The columns of task_columns, and whether the task has steps and signals; JSON that is kept as it was
-- encoded travels as text. One row comes back, whatever was claimed. Who lost a task since does not get it.
SELECT json_group_array(json_array(
           key, id, workflow, version, state, CAST(input AS TEXT), CAST(output AS TEXT), CAST(error AS TEXT),
           complete_by, hard_end, locked_by, lock_number, failure_count, crash_count, wake_at, parked, request,
           reply_to, attributes, parent_key, parent_step, created_at, updated_at,
           EXISTS (SELECT 1 FROM step WHERE step.task_key = found.key),
           EXISTS (SELECT 1 FROM signal WHERE signal.task_key = found.key)))
  FROM (SELECT task.* FROM claimed CROSS JOIN task USING (key)
         WHERE task.locked_by = :owner AND task.lock_number = claimed.lock_number
         ORDER BY key) AS found;

-- name: send_requests
-- One that takes the place of an earlier attempt's stands at the end of the line.
INSERT OR REPLACE INTO agent_request (task_key, step, "undo", agent, attempt, complete_by, body)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6
  FROM json_each(NEW.sent);

-- name: withdraw_closed
-- What somebody works on stays until that has stopped; the rest of what is closed goes.
UPDATE agent_request SET withdrawn = 1
  FROM json_each(NEW.closed) AS done
 WHERE task_key = done.value ->> 0 AND step = done.value ->> 1
   AND "undo" = done.value ->> 2 AND attempt = done.value ->> 3
   AND claimed_by IS NOT NULL AND reply IS NULL AND broken_off IS NULL;

-- name: remove_closed
DELETE FROM agent_request WHERE withdrawn = 0 AND number IN (
       SELECT request.number FROM json_each(NEW.closed) AS done
         JOIN agent_request AS request
           ON request.task_key = done.value ->> 0 AND request.step = done.value ->> 1
          AND request."undo" = done.value ->> 2 AND request.attempt = done.value ->> 3);

-- name: remove_withdrawn
-- Of a host that has ended: what was withdrawn has stopped by that.
DELETE FROM agent_request WHERE claimed_by = :id AND withdrawn = 1 RETURNING task_key;

-- name: request_at
SELECT {request_columns} FROM agent_request AS request
 WHERE request.task_key = :task_key AND request.step = :step AND request."undo" = :undo
   AND request.attempt = :attempt;

-- name: put_reply
UPDATE agent_request SET reply = :reply, broken_off = NULL
 WHERE task_key = :task_key AND step = :step AND attempt = :attempt;

-- name: remove_request
DELETE FROM agent_request WHERE task_key = :task_key AND step = :step;

-- name: withdraw_request
UPDATE agent_request SET withdrawn = 1 WHERE task_key = :task_key AND step = :step;
