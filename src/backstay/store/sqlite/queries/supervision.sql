-- name: leader
SELECT holder, epoch, until FROM leader WHERE name = 'supervisor';

-- name: renew_lead
UPDATE leader SET until = :until WHERE name = 'supervisor' AND holder = :holder AND until > :now;

-- name: take_lead
-- ``gone``: a lock file tells that the process of the holder has ended, whatever its lease says.
UPDATE leader SET holder = :holder, epoch = epoch + 1, until = :until
 WHERE name = 'supervisor'
   AND (holder IS NULL OR until <= :now OR :gone
        OR EXISTS (SELECT 1 FROM instance WHERE id = holder AND live = 0));

-- name: step_down
-- The epoch stays: what is still under way under it meets no holder any more.
UPDATE leader SET holder = NULL, until = NULL
 WHERE name = 'supervisor' AND holder = :holder AND epoch = :epoch;

-- name: leads
-- The fence of whatever the supervisor writes.
SELECT 1 FROM leader WHERE name = 'supervisor' AND holder = :holder AND epoch = :epoch AND until > :now;

-- name: suspects
-- Whom a burial looks at: here everybody, since a lock file may tell what a heartbeat does not yet.
SELECT {instance_columns} FROM instance WHERE live = 1 ORDER BY heartbeat_at;

-- name: is_due
wake_at IS NOT NULL AND wake_at <= :now AND locked_by IS NULL

-- name: is_overrun
locked_by IS NOT NULL AND complete_by < :now

-- name: is_past_its_end
-- Whoever has just claimed it gets the grace as well: the end may have passed while the task was queued.
state = 'processing' AND hard_end IS NOT NULL AND hard_end < :before AND updated_at < :before

-- name: is_overdue
-- Of a step and its task. That it has ended keeps a second sweep from counting it again.
task.locked_by IS NOT NULL AND task.state = 'processing'
   AND step.kind = 'step' AND step.state = 'running'
   AND step.complete_by < :before AND step.ended_at IS NULL

-- name: work_waits
-- Whether a sweep would find anything; dead instances aside, which the lock files tell of.
SELECT EXISTS (SELECT 1 FROM task INDEXED BY task_wake WHERE {is_due})
    OR EXISTS (SELECT 1 FROM task INDEXED BY task_locked WHERE {is_overrun})
    OR EXISTS (SELECT 1 FROM task INDEXED BY task_hard_end WHERE {is_past_its_end})
    OR EXISTS (SELECT 1 FROM task INDEXED BY task_locked
                 JOIN step ON step.task_key = task.key WHERE {is_overdue});

-- name: wake_due
UPDATE task
   SET state = CASE state WHEN 'waiting' THEN 'pending' ELSE state END,
       parked = 0, wake_at = NULL, updated_at = :now
 WHERE key IN (
       SELECT key FROM task INDEXED BY task_wake
        WHERE {is_due}
        ORDER BY wake_at
        LIMIT :limit);

-- name: expire_runs
-- An overrun undo is simply taken up again; its steps count their own failures.
UPDATE task
   SET state = CASE state WHEN 'processing' THEN 'pending' ELSE state END,
       failure_count = failure_count + (state = 'processing'),
       locked_by = NULL, complete_by = NULL, lock_number = lock_number + 1, updated_at = :now
 WHERE key IN (
       SELECT key FROM (SELECT key FROM task INDEXED BY task_locked
                         WHERE {is_overrun} ORDER BY complete_by LIMIT :limit)
        UNION
       SELECT key FROM (SELECT key FROM task INDEXED BY task_hard_end
                         WHERE {is_past_its_end} ORDER BY hard_end LIMIT :limit)
        LIMIT :limit)
RETURNING workflow, state, key;

-- name: steps_overdue
-- Walks the locked tasks only: as many as are in flight, however many are finished.
SELECT step.task_key, step.key, task.workflow, step.agent FROM task INDEXED BY task_locked
  JOIN step ON step.task_key = task.key
 WHERE {is_overdue}
 LIMIT :limit;

-- name: expire_step
-- It stays running: whether it is repeated or has failed for good is the next holder's decision.
UPDATE step
   SET failure_count = failure_count + 1, unsure = 1, ended_at = :now
 WHERE task_key = :task_key AND key = :key AND state = 'running';

-- name: take_away
UPDATE task
   SET state = 'pending', locked_by = NULL, complete_by = NULL, lock_number = lock_number + 1, updated_at = :now
 WHERE key = :key AND state = 'processing';

-- name: insert_recovery
INSERT INTO recovery (at, workflow, agent, number) VALUES (?, ?, ?, ?);

-- name: forget_recoveries
DELETE FROM recovery WHERE id IN (SELECT id FROM recovery WHERE at < :before ORDER BY at LIMIT :limit);

-- name: recoveries
SELECT workflow, agent, sum(number) FROM recovery
 WHERE at >= :since
 GROUP BY workflow, agent
 ORDER BY workflow, agent NULLS FIRST;

-- name: round_columns
id, at, epoch, freed, overrun, steps_expired, undos, woken, paused

-- name: list_rounds
SELECT {round_columns} FROM supervisor_round ORDER BY id DESC LIMIT :limit;

-- name: insert_round
INSERT INTO supervisor_round (at, epoch, freed, overrun, steps_expired, undos, woken, paused)
VALUES (:at, :epoch, :freed, :overrun, :steps_expired, :undos, :woken, :paused);

-- name: repeat_round
-- One more idle round after an idle one: of those only the last is kept.
UPDATE supervisor_round SET at = :at, epoch = :epoch WHERE id = :round_id;

-- name: forget_rounds
DELETE FROM supervisor_round
 WHERE id <= (SELECT id FROM supervisor_round ORDER BY id DESC LIMIT 1 OFFSET :keep);
