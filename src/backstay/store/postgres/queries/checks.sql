-- What must never be found, whatever happened. Each query gives of what is wrong an id and a word, up to a limit; those
-- over tasks, and what belongs to tasks, look at the keys of one page, so that none of them takes long.

-- name: page_of_keys
-- Where the next page ends: so many tasks further; behind the last of them, where the last of what belongs to any is.
SELECT coalesce(
       (SELECT key FROM {schema}.task WHERE key > :after ORDER BY key LIMIT 1 OFFSET :page),
       (SELECT max(last) FROM (SELECT max(key) AS last FROM {schema}.task
                                UNION ALL SELECT max(task_key) FROM {schema}.step
                                UNION ALL SELECT max(task_key) FROM {schema}.signal
                                UNION ALL SELECT max(task_key) FROM {schema}.payload
                                UNION ALL SELECT max(task_key) FROM {schema}.told
                                UNION ALL SELECT max(task_key) FROM {schema}.agent_request) AS of_each));

-- name: last_key
SELECT coalesce(max(key), 0) FROM {schema}.task;

-- name: faulty_task_columns
-- The rules of the schema once more: a file may have been written past them.
SELECT id, state FROM {schema}.task
 WHERE key > :after AND key <= :through
   AND NOT (CASE state
       WHEN 'pending'     THEN NOT parked AND locked_by IS NULL
       WHEN 'processing'  THEN NOT parked AND locked_by IS NOT NULL
       WHEN 'waiting'     THEN parked AND locked_by IS NULL
       WHEN 'processed'   THEN NOT parked AND locked_by IS NULL AND output IS NOT NULL
       WHEN 'error'       THEN NOT parked AND locked_by IS NULL AND error IS NOT NULL
       WHEN 'undoing'     THEN true
       WHEN 'undone'      THEN NOT parked AND locked_by IS NULL
       WHEN 'undo_failed' THEN NOT parked AND locked_by IS NULL
       WHEN 'cancelled'   THEN NOT parked AND locked_by IS NULL
       ELSE false END
       AND (locked_by IS NOT NULL OR complete_by IS NULL))
 LIMIT :limit;

-- name: faulty_task_holders
SELECT id, locked_by FROM {schema}.task
 WHERE key > :after AND key <= :through AND locked_by IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM {schema}.instance WHERE instance.id = task.locked_by AND instance.live)
 LIMIT :limit;

-- name: faulty_waits
-- Every task that is parked is called by a time, or by something that its journal waits for.
SELECT id, state FROM {schema}.task
 WHERE key > :after AND key <= :through AND state = 'waiting' AND wake_at IS NULL AND request IS NULL
   AND NOT EXISTS (SELECT 1 FROM {schema}.step WHERE step.task_key = task.key AND step.state IN ('running', 'pending'))
 LIMIT :limit;

-- name: faulty_open_steps
SELECT task.id, step.key || ' ' || step.state FROM {schema}.task JOIN {schema}.step ON step.task_key = task.key
 WHERE task.key > :after AND task.key <= :through
   AND task.state IN ('processed', 'undone', 'cancelled')
   AND step.kind = 'step' AND step.state IN ('running', 'undoing')
 LIMIT :limit;

-- name: faulty_undos
-- Of a task that is undone, nothing is left done that can be undone.
SELECT task.id, step.key || ' ' || step.state FROM {schema}.task JOIN {schema}.step ON step.task_key = task.key
 WHERE task.key > :after AND task.key <= :through
   AND task.state = 'undone'
   AND step.state IN ('completed', 'undo_failed') AND step."undo" IS NOT NULL
 LIMIT :limit;

-- name: faulty_step_columns
SELECT coalesce((SELECT id FROM {schema}.task WHERE task.key = step.task_key), 'key ' || step.task_key), key || ' ' || state
  FROM {schema}.step
 WHERE task_key > :after AND task_key <= :through
   AND NOT ((kind IN ('sleep', 'signal', 'child', 'value') OR kind = 'step' AND agent IS NOT NULL)
       AND CASE state
       WHEN 'running'     THEN position IS NULL AND (kind <> 'step' OR complete_by IS NOT NULL AND attempt > 0)
       WHEN 'completed'   THEN position IS NOT NULL AND output IS NOT NULL
       WHEN 'pending'     THEN position IS NULL AND complete_by IS NULL
       WHEN 'failed'      THEN true
       WHEN 'skipped'     THEN true
       WHEN 'undoing'     THEN true
       WHEN 'undone'      THEN true
       WHEN 'undo_failed' THEN true
       ELSE false END)
 LIMIT :limit;

-- name: faulty_positions
-- A replay gives recorded results in their order: no two have the same place in it. Values take none of their own.
SELECT (SELECT id FROM {schema}.task WHERE task.key = step.task_key), min(key) || ' and ' || max(key)
  FROM {schema}.step
 WHERE task_key > :after AND task_key <= :through AND position IS NOT NULL AND kind <> 'value'
 GROUP BY task_key, position HAVING count(*) > 1
 LIMIT :limit;

-- name: faulty_belongings
SELECT 'key ' || task_key, what FROM (
       SELECT DISTINCT task_key, 'step' AS what FROM {schema}.step WHERE task_key > :after AND task_key <= :through
        UNION ALL
       SELECT DISTINCT task_key, 'signal' FROM {schema}.signal WHERE task_key > :after AND task_key <= :through
        UNION ALL
       SELECT DISTINCT task_key, 'payload' FROM {schema}.payload WHERE task_key > :after AND task_key <= :through
        UNION ALL
       SELECT task_key, 'told' FROM {schema}.told WHERE task_key > :after AND task_key <= :through
        UNION ALL
       SELECT DISTINCT task_key, 'agent_request' FROM {schema}.agent_request
        WHERE task_key > :after AND task_key <= :through) AS belonging
 WHERE NOT EXISTS (SELECT 1 FROM {schema}.task WHERE task.key = belonging.task_key)
 LIMIT :limit;

-- name: faulty_claim_checks
SELECT (SELECT id FROM {schema}.task WHERE task.key = named.task_key), place FROM (
       SELECT key AS task_key, 'input' AS place, input AS value FROM {schema}.task WHERE key > :after AND key <= :through
        UNION ALL
       SELECT key, 'output', output FROM {schema}.task WHERE key > :after AND key <= :through
        UNION ALL
       SELECT task_key, 'input of ' || key, input FROM {schema}.step WHERE task_key > :after AND task_key <= :through
        UNION ALL
       SELECT task_key, 'output of ' || key, output FROM {schema}.step WHERE task_key > :after AND task_key <= :through
        UNION ALL
       SELECT task_key, 'signal ' || name, payload FROM {schema}.signal WHERE task_key > :after AND task_key <= :through
       ) AS named
 WHERE octet_length(value) > 1 AND get_byte(value, 0) = 64
   AND NOT EXISTS (SELECT 1 FROM {schema}.payload
                    WHERE payload.task_key = named.task_key AND payload.digest = convert_from(substr(value, 2), 'UTF8'))
 LIMIT :limit;

-- name: faulty_children
SELECT id, state FROM {schema}.task
 WHERE key > :after AND key <= :through
   AND parent_key IS NOT NULL AND state IN ('pending', 'processing', 'waiting')
   AND NOT EXISTS (SELECT 1 FROM {schema}.task AS parent WHERE parent.key = task.parent_key)
 LIMIT :limit;

-- name: faulty_parents
-- A task that waits for one that it started, which is not there.
SELECT task.id, step.key FROM {schema}.task JOIN {schema}.step ON step.task_key = task.key
 WHERE task.key > :after AND task.key <= :through AND task.state IN ('pending', 'processing', 'waiting')
   AND step.kind = 'child' AND step.state = 'running'
   AND NOT EXISTS (SELECT 1 FROM {schema}.task AS child
                    WHERE child.parent_key = task.key AND child.parent_step = step.key)
 LIMIT :limit;

-- name: faulty_messages
SELECT 'message ' || sequence, coalesce((SELECT name FROM {schema}.queue WHERE queue.key = message.queue_key), 'no queue')
  FROM {schema}.message
 WHERE NOT EXISTS (SELECT 1 FROM {schema}.queue WHERE queue.key = message.queue_key)
    OR NOT (CASE state
       WHEN 'ready'    THEN visible_at IS NULL AND lock_secret IS NULL
       WHEN 'locked'   THEN visible_at IS NOT NULL AND lock_secret IS NOT NULL AND delivery_count > 0
       WHEN 'behind'   THEN visible_at IS NULL AND lock_secret IS NULL AND session IS NOT NULL
       WHEN 'waiting'  THEN visible_at IS NOT NULL AND lock_secret IS NULL
       WHEN 'deferred' THEN visible_at IS NULL AND lock_secret IS NULL
       WHEN 'dead'     THEN visible_at IS NULL AND lock_secret IS NULL AND reason IS NOT NULL AND dead_at IS NOT NULL
       ELSE false END)
 LIMIT :limit;

-- name: faulty_sequences
-- A number that is given twice would make one token of two.
SELECT 'message ' || sequence, 'beyond ' || last_value
  FROM {schema}.message CROSS JOIN {schema}.message_sequence WHERE sequence > last_value
 LIMIT :limit;

-- name: faulty_subscriptions
SELECT topic || '/' || name, 'queue ' || queue_key FROM {schema}.subscription
 WHERE NOT EXISTS (SELECT 1 FROM {schema}.queue WHERE queue.key = subscription.queue_key)
    OR NOT EXISTS (SELECT 1 FROM {schema}.topic WHERE topic.name = subscription.topic)
 LIMIT :limit;

-- name: faulty_jobs
-- What is armed is due one day, and nothing else is.
SELECT job.name, coalesce(collection.name, 'no collection') FROM {schema}.job
  LEFT JOIN {schema}.job_collection AS collection ON collection.key = job.collection_key
 WHERE collection.key IS NULL
    OR (job.armed_at IS NOT NULL) <> (job.state = 'enabled' AND job.next_at IS NOT NULL AND collection.state = 'Enabled')
 LIMIT :limit;

-- name: faulty_job_uids
-- The tasks of occurrences are named by it: two jobs of one name would start each instant once for both.
SELECT uid, CAST(count(*) AS text) FROM {schema}.job GROUP BY uid HAVING count(*) > 1 LIMIT :limit;

-- name: faulty_histories
SELECT name, entries || ' counted' FROM {schema}.job
 WHERE entries <> (SELECT count(*) FROM {schema}.job_history WHERE job_history.job_key = job.key)
 LIMIT :limit;

-- name: faulty_job_belongings
SELECT 'key ' || job_key, what FROM (
       SELECT DISTINCT job_key, 'job_secret' AS what FROM {schema}.job_secret
        UNION ALL
       SELECT DISTINCT job_key, 'job_task' FROM {schema}.job_task
        UNION ALL
       SELECT DISTINCT job_key, 'job_history' FROM {schema}.job_history
        WHERE job_key NOT IN (SELECT job_key FROM {schema}.job_gone)) AS belonging
 WHERE NOT EXISTS (SELECT 1 FROM {schema}.job WHERE job.key = belonging.job_key)
 LIMIT :limit;

-- name: faulty_job_tasks
-- An instant starts one task, of one job.
SELECT task_id, CAST(count(*) AS text) FROM {schema}.job_task GROUP BY task_id HAVING count(*) > 1 LIMIT :limit;

-- name: faulty_leader
-- There is one lead, which somebody has or nobody.
SELECT 'supervisor', number || ' rows' FROM (SELECT count(*) AS number FROM {schema}.leader WHERE name = 'supervisor') AS found
 WHERE number <> 1
 LIMIT :limit;

-- name: reached
-- How far each group has got in a stream, and of which log.
SELECT stream, grp, partition, slot, checkpoint, log FROM {schema}.checkpoint
 WHERE (stream, grp, partition, slot) > (:stream, :grp, :partition, :slot)
 ORDER BY stream, grp, partition, slot LIMIT :limit;
