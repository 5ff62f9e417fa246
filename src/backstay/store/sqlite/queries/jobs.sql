-- name: collection_columns
collection.key, collection.subscription, collection.resource_group, collection.name, collection.location,
collection.tags, collection.sku, collection.state, collection.quota

-- name: standing_columns
job.key, job.uid, job.generation, collection.subscription, collection.resource_group, collection.name, job.name,
job.state, job.catch_up, job.overlap, job.created_at, job.updated_at, job.next_at, job.fired_at, job.occurrences,
job.last_execution_at, job.executions, job.failures, job.faults, job.outcome_at, job.outcome_failed, job.armed_at,
job.entries

-- name: is_at_work
-- Of a task: it has not come to its end.
task.state IN ('pending', 'processing', 'waiting', 'undoing')

-- name: jobs_of
job CROSS JOIN job_collection AS collection ON collection.key = job.collection_key

-- name: history_columns
number, action, status, expected_at, started_at, ended_at, message, retry, repeat, instants, generation, at, by_hand

-- name: find_collection
SELECT {collection_columns} FROM job_collection AS collection
 WHERE subscription_folded = :subscription AND resource_group_folded = :resource_group AND name_folded = :name;

-- name: list_collections
SELECT {collection_columns} FROM job_collection AS collection
 WHERE subscription_folded = :subscription
 ORDER BY resource_group_folded, name_folded LIMIT :limit OFFSET :skip;

-- name: list_collections_of
SELECT {collection_columns} FROM job_collection AS collection
 WHERE subscription_folded = :subscription AND resource_group_folded = :resource_group
 ORDER BY name_folded LIMIT :limit OFFSET :skip;

-- name: count_collections
-- All but one: the one that is about to be written.
SELECT sku, count(*) FROM job_collection
 WHERE subscription_folded = :subscription AND key IS NOT :key
 GROUP BY sku;

-- name: insert_collection
INSERT INTO job_collection (subscription, resource_group, name, subscription_folded, resource_group_folded,
                            name_folded, location, tags, sku, state, quota)
VALUES (:subscription, :resource_group, :name, :subscription_folded, :resource_group_folded,
        :name_folded, :location, :tags, :sku, :state, :quota);

-- name: update_collection
UPDATE job_collection SET location = :location, tags = :tags, sku = :sku, state = :state, quota = :quota
 WHERE key = :key;

-- name: arm_jobs
-- Those of one collection, when it is enabled, or no longer.
UPDATE job SET armed_at = CASE WHEN :armed = 1 AND state = 'enabled' THEN next_at END
 WHERE collection_key = :collection_key;

-- name: delete_collection
DELETE FROM job_collection WHERE key = :key;

-- name: find_job
SELECT {standing_columns}, job.definition FROM {jobs_of}
 WHERE job.collection_key = :collection_key AND job.name_folded = :name;

-- name: count_jobs
SELECT count(*) FROM job WHERE collection_key = :collection_key;

-- name: count_jobs_of
-- Of each of these collections, in their order; none of one that is not there.
SELECT (SELECT count(*) FROM job_collection AS collection CROSS JOIN job ON job.collection_key = collection.key
         WHERE collection.subscription_folded = one.value
           AND collection.resource_group_folded = :resource_groups ->> one.key
           AND collection.name_folded = :names ->> one.key)
  FROM json_each(:subscriptions) AS one ORDER BY one.key;

-- name: list_jobs
SELECT {standing_columns}, job.definition FROM {jobs_of}
 WHERE job.collection_key = :collection_key AND (:state IS NULL OR job.state = :state)
 ORDER BY job.name_folded LIMIT :limit OFFSET :skip;

-- name: insert_job
INSERT INTO job (collection_key, name, name_folded, uid, generation, state, catch_up, overlap, created_at, updated_at,
                 next_at, armed_at, fired_at, occurrences, last_execution_at, executions, failures, faults,
                 outcome_at, outcome_failed, ended_at, definition)
VALUES (:collection_key, :name, :name_folded, :uid, :generation, :state, :catch_up, :overlap, :created_at, :updated_at,
        :next_at, :armed_at, :fired_at, :occurrences, :last_execution_at, :executions, :failures, :faults,
        :outcome_at, :outcome_failed, CASE WHEN :state IN ('completed', 'faulted') THEN :now END, :definition)
RETURNING key;

-- name: update_job
UPDATE job
   SET uid = :uid, generation = :generation, state = :state, catch_up = :catch_up, overlap = :overlap,
       created_at = :created_at, updated_at = :updated_at, next_at = :next_at, armed_at = :armed_at,
       fired_at = :fired_at, occurrences = :occurrences, last_execution_at = :last_execution_at,
       executions = :executions, failures = :failures, faults = :faults, outcome_at = :outcome_at,
       outcome_failed = :outcome_failed, definition = :definition,
       ended_at = CASE WHEN :state IN ('completed', 'faulted') THEN coalesce(ended_at, :now) END
 WHERE key = :key;

-- name: job_keys
SELECT key FROM job WHERE collection_key = :collection_key;

-- name: leave_history
-- Nobody sees it any more; it goes with the next rounds of pruning.
INSERT INTO job_gone (job_key)
SELECT key FROM job WHERE key IN (SELECT value FROM json_each(:keys)) AND entries > 0;

-- name: delete_secrets
DELETE FROM job_sealed_secret WHERE job_key IN (SELECT value FROM json_each(:keys));

-- name: delete_job_tasks
DELETE FROM job_task WHERE job_key IN (SELECT value FROM json_each(:keys));

-- name: delete_jobs
DELETE FROM job WHERE key IN (SELECT value FROM json_each(:keys));

-- name: secrets_of
SELECT place, sealed FROM job_sealed_secret
 WHERE job_key = :job_key AND EXISTS (SELECT 1 FROM job WHERE key = :job_key AND uid = :uid);

-- name: insert_secrets
INSERT INTO job_sealed_secret (job_key, place, sealed)
SELECT :job_key, key, value FROM json_each(:secrets);

-- name: next_due
-- The first entry of the index, however many there are.
SELECT armed_at FROM job WHERE armed_at IS NOT NULL ORDER BY armed_at LIMIT 1;

-- name: list_due
-- What is at work is known exactly: of the few tasks that a job's firings left, those that have not settled.
SELECT {standing_columns}, job.definition, {collection_columns},
       (SELECT count(*) FROM job_task CROSS JOIN task ON task.id = job_task.task_id
         WHERE job_task.job_key = job.key AND {is_at_work})
  FROM {jobs_of}
 WHERE job.armed_at <= :now
 ORDER BY job.armed_at, job.key LIMIT :limit;

-- name: jobs_by_key
-- How they stand, not what they are.
SELECT {standing_columns}, NULL FROM {jobs_of} WHERE job.key IN (SELECT value FROM json_each(:keys));

-- name: put_standings
UPDATE job
   SET state = one.value ->> 1, next_at = one.value ->> 2, armed_at = one.value ->> 3, fired_at = one.value ->> 4,
       occurrences = one.value ->> 5, last_execution_at = one.value ->> 6, executions = one.value ->> 7,
       failures = one.value ->> 8, faults = one.value ->> 9, outcome_at = one.value ->> 10,
       outcome_failed = one.value ->> 11, entries = one.value ->> 12,
       ended_at = CASE WHEN one.value ->> 1 IN ('completed', 'faulted') THEN coalesce(ended_at, :now) END
  FROM json_each(:standings) AS one
 WHERE job.key = one.value ->> 0;

-- name: forget_settled
DELETE FROM job_task
 WHERE job_key IN (SELECT value FROM json_each(:keys))
   AND NOT EXISTS (SELECT 1 FROM task WHERE task.id = job_task.task_id
                      AND {is_at_work});

-- name: insert_job_tasks
INSERT INTO job_task (job_key, task_id)
SELECT value ->> 0, value ->> 1 FROM json_each(:tasks) WHERE true
ON CONFLICT DO NOTHING;

-- name: insert_history
-- What was said before is not said again.
INSERT INTO job_history (job_key, generation, at, by_hand, action, retry, status, expected_at, started_at, ended_at,
                         repeat, instants, message)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12
  FROM json_each(:entries) WHERE true
ON CONFLICT DO NOTHING
RETURNING job_key, generation, at, by_hand, action, retry;

-- name: cut_history
DELETE FROM job_history
 WHERE number IN (SELECT number FROM job_history WHERE job_key = ?1 ORDER BY started_at, number LIMIT ?2);

-- name: list_history
-- Of a job that is gone there may still be something; it is nobody's.
SELECT {history_columns} FROM job_history
 WHERE job_key = :job_key AND EXISTS (SELECT 1 FROM job WHERE key = :job_key)
   AND (:status IS NULL OR status = :status) AND (:action IS NULL OR action = :action)
   AND (:since IS NULL OR started_at >= :since) AND (:until IS NULL OR started_at < :until)
 ORDER BY started_at DESC, number DESC LIMIT :limit OFFSET :skip;

-- name: stranded_jobs
-- Those that wait for their last occurrence, whose task has settled without a word about it.
SELECT {standing_columns}, NULL FROM {jobs_of}
 WHERE job.state = 'enabled' AND job.next_at IS NULL AND job.fired_at IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM job_task CROSS JOIN task ON task.id = job_task.task_id
                    WHERE job_task.job_key = job.key AND {is_at_work})
 ORDER BY job.key LIMIT :limit;

-- name: jobs_ended
SELECT key FROM job WHERE ended_at < :ended_before ORDER BY ended_at, key LIMIT :limit;

-- name: prune_gone
DELETE FROM job_history
 WHERE number IN (SELECT number FROM job_gone CROSS JOIN job_history USING (job_key)
                   ORDER BY job_gone.job_key LIMIT :limit);

-- name: forget_gone
-- Those whose history is gone as well: the first of them lose theirs first.
DELETE FROM job_gone
 WHERE job_key IN (SELECT job_key FROM job_gone ORDER BY job_key LIMIT :limit)
   AND NOT EXISTS (SELECT 1 FROM job_history WHERE job_history.job_key = job_gone.job_key);

-- name: prune_history
DELETE FROM job_history
 WHERE number IN (SELECT number FROM job_history WHERE started_at < :started_before ORDER BY started_at, number LIMIT :limit)
RETURNING job_key;

-- name: count_down
UPDATE job SET entries = entries - (one.value ->> 1)
  FROM json_each(:counts) AS one
 WHERE job.key = one.value ->> 0;
