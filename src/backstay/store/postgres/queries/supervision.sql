-- name: leader
SELECT holder, epoch, until FROM {schema}.leader WHERE name = 'supervisor';

-- name: renew_lead
-- Passes what the leader itself is just writing under its lead.
UPDATE {schema}.leader SET until = {now} + :lease::interval
 WHERE name = 'supervisor' AND holder = :holder AND until > {now}
RETURNING holder, epoch, until;

-- name: take_lead
-- FOR UPDATE waits for whatever is being written under the lead (see below), and then looks again whether
-- the lead is free: of two who want it, one finds the other. The UPDATE alone would not wait.
UPDATE {schema}.leader SET holder = :holder, epoch = epoch + 1, until = {now} + :lease::interval
 WHERE name = (SELECT name FROM {schema}.leader
                WHERE name = 'supervisor'
                  AND (holder IS NULL OR until <= {now}
                       OR EXISTS (SELECT 1 FROM {schema}.instance WHERE id = holder AND NOT live))
                  FOR UPDATE)
RETURNING holder, epoch, until;

-- name: step_down
-- The epoch stays: what is still under way under it meets no holder any more.
UPDATE {schema}.leader SET holder = NULL, until = NULL
 WHERE name = 'supervisor' AND holder = :holder AND epoch = :epoch;

-- name: leads
-- The fence of whatever the supervisor writes. Locked until the commit: who takes over has to wait for what
-- is written here, and what is written after that finds another epoch. Only against that: the leader
-- itself renews its lease meanwhile.
SELECT 1 FROM {schema}.leader
 WHERE name = 'supervisor' AND holder = :holder AND epoch = :epoch AND until > {now}
   FOR KEY SHARE;

-- name: suspects
-- Whom a burial looks at: those whose lease ran out. One that is writing right now is left for the next
-- round: its batch holds this row.
SELECT {instance_columns} FROM {schema}.instance WHERE {is_late} ORDER BY id FOR UPDATE SKIP LOCKED;

-- name: is_due
wake_at IS NOT NULL AND wake_at <= {now} AND locked_by IS NULL

-- name: is_overrun
locked_by IS NOT NULL AND complete_by < {now}

-- name: is_past_its_end
-- Whoever has just claimed it gets the grace as well: the end may have passed while the task was queued.
state = 'processing' AND hard_end IS NOT NULL
   AND hard_end < {now} - :grace::interval AND updated_at < {now} - :grace::interval

-- name: is_overdue
-- Of a step and its task. That it has ended keeps a second sweep from counting it again.
task.locked_by IS NOT NULL AND task.state = 'processing'
   AND step.kind = 'step' AND step.state = 'running'
   AND step.complete_by < {now} - :grace::interval AND step.ended_at IS NULL

-- name: work_waits
SELECT EXISTS (SELECT 1 FROM {schema}.task WHERE {is_due})
    OR EXISTS (SELECT 1 FROM {schema}.task WHERE {is_overrun})
    OR EXISTS (SELECT 1 FROM {schema}.task WHERE {is_past_its_end})
    OR EXISTS (SELECT 1 FROM {schema}.instance WHERE {is_late})
    OR EXISTS (SELECT 1 FROM {schema}.task
                 JOIN {schema}.step ON step.task_key = task.key WHERE {is_overdue});

-- name: wake_due
-- What somebody is just writing is left for the next round. (The same below.)
UPDATE {schema}.task
   SET state = CASE state WHEN 'waiting' THEN 'pending' ELSE state END,
       parked = false, wake_at = NULL, updated_at = {now}
 WHERE key IN (
       SELECT key FROM {schema}.task
        WHERE {is_due}
        ORDER BY wake_at
        LIMIT :limit
          FOR UPDATE SKIP LOCKED)
RETURNING key;

-- name: expire_runs
-- An overrun undo is simply taken up again; its steps count their own failures.
UPDATE {schema}.task
   SET state = CASE state WHEN 'processing' THEN 'pending' ELSE state END,
       failure_count = failure_count + (state = 'processing')::int,
       locked_by = NULL, complete_by = NULL, lock_number = lock_number + 1, updated_at = {now}
 WHERE key IN (
       SELECT key FROM (SELECT key FROM {schema}.task
                         WHERE {is_overrun} ORDER BY complete_by LIMIT :limit
                           FOR UPDATE SKIP LOCKED) AS overrun
        UNION
       SELECT key FROM (SELECT key FROM {schema}.task
                         WHERE {is_past_its_end} ORDER BY hard_end LIMIT :limit
                           FOR UPDATE SKIP LOCKED) AS past_its_end
        LIMIT :limit)
RETURNING workflow, state, key;

-- name: steps_overdue
-- Walks the locked tasks only: as many as are in flight, however many are finished.
SELECT step.task_key, step.key, task.workflow FROM {schema}.task
  JOIN {schema}.step ON step.task_key = task.key
 WHERE {is_overdue}
 LIMIT :limit
   FOR UPDATE OF task SKIP LOCKED;

-- name: expire_step
-- It stays running: whether it is repeated or has failed for good is the next holder's decision.
UPDATE {schema}.step
   SET failure_count = failure_count + 1, unsure = true, ended_at = {now}
  FROM unnest(:task_key::bigint[], :key::text[]) AS overdue (task_key, key)
 WHERE step.task_key = overdue.task_key AND step.key = overdue.key AND step.state = 'running'
   AND step.complete_by < {now} - :grace::interval AND step.ended_at IS NULL
RETURNING step.task_key, step.agent;

-- name: take_away
UPDATE {schema}.task
   SET state = 'pending', locked_by = NULL, complete_by = NULL, lock_number = lock_number + 1, updated_at = {now}
 WHERE key = ANY (:keys::bigint[]) AND state = 'processing';

-- name: insert_recovery
INSERT INTO {schema}.recovery (at, workflow, agent, number)
SELECT {now}, workflow, agent, number
  FROM unnest(:workflow::text[], :agent::text[], :number::bigint[]) AS one (workflow, agent, number);

-- name: forget_recoveries
DELETE FROM {schema}.recovery WHERE id IN (
       SELECT id FROM {schema}.recovery WHERE at < {now} - :kept::interval ORDER BY at LIMIT :limit
          FOR UPDATE SKIP LOCKED);

-- name: recoveries
SELECT workflow, agent, sum(number)::bigint FROM {schema}.recovery
 WHERE at >= :since
 GROUP BY workflow, agent
 ORDER BY workflow COLLATE "C", agent COLLATE "C" NULLS FIRST;

-- name: round_columns
id, at, epoch, freed, overrun, steps_expired, undos, woken, paused

-- name: list_rounds
SELECT {round_columns} FROM {schema}.supervisor_round ORDER BY id DESC LIMIT :limit;

-- name: insert_round
INSERT INTO {schema}.supervisor_round (at, epoch, freed, overrun, steps_expired, undos, woken, paused)
VALUES (:at, :epoch, :freed, :overrun, :steps_expired, :undos, :woken, :paused);

-- name: repeat_round
-- One more idle round after an idle one: of those only the last is kept.
UPDATE {schema}.supervisor_round SET at = :at, epoch = :epoch WHERE id = :round_id;

-- name: forget_rounds
DELETE FROM {schema}.supervisor_round
 WHERE id <= (SELECT id FROM {schema}.supervisor_round ORDER BY id DESC LIMIT 1 OFFSET :keep);
