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
{schema}.job JOIN {schema}.job_collection AS collection ON collection.key = job.collection_key

-- name: history_columns
number, action, status, expected_at, started_at, ended_at, message, retry, repeat, instants, generation, at, by_hand

-- name: find_collection
SELECT {collection_columns} FROM {schema}.job_collection AS collection
 WHERE subscription_folded = :subscription AND resource_group_folded = :resource_group AND name_folded = :name;

-- name: list_collections
SELECT {collection_columns} FROM {schema}.job_collection AS collection
 WHERE subscription_folded = :subscription
 ORDER BY resource_group_folded, name_folded LIMIT :limit OFFSET :skip;

-- name: list_collections_of
SELECT {collection_columns} FROM {schema}.job_collection AS collection
 WHERE subscription_folded = :subscription AND resource_group_folded = :resource_group
 ORDER BY name_folded LIMIT :limit OFFSET :skip;

-- name: count_collections
-- All but one: the one that is about to be written.
SELECT sku, count(*) FROM {schema}.job_collection
 WHERE subscription_folded = :subscription AND key IS DISTINCT FROM :key::bigint
 GROUP BY sku;

-- name: insert_collection
INSERT INTO {schema}.job_collection (subscription, resource_group, name, subscription_folded,
                                     resource_group_folded, name_folded, location, tags, sku, state, quota)
VALUES (:subscription, :resource_group, :name, :subscription_folded,
        :resource_group_folded, :name_folded, :location, :tags, :sku, :state, :quota);

-- name: update_collection
UPDATE {schema}.job_collection SET location = :location, tags = :tags, sku = :sku, state = :state, quota = :quota
 WHERE key = :key;

-- name: arm_jobs
-- Those of one collection, when it is enabled, or no longer. Locked in the order of their keys, as everywhere.
WITH ours AS MATERIALIZED (
    SELECT key FROM {schema}.job WHERE collection_key = :collection_key ORDER BY key FOR UPDATE)
UPDATE {schema}.job SET armed_at = CASE WHEN :armed::boolean AND state = 'enabled' THEN next_at END
  FROM ours
 WHERE job.key = ours.key;

-- name: delete_collection
DELETE FROM {schema}.job_collection WHERE key = :key;

-- name: find_job
SELECT {standing_columns}, job.definition FROM {jobs_of}
 WHERE job.collection_key = :collection_key AND job.name_folded = :name;

-- name: count_jobs
SELECT count(*) FROM {schema}.job WHERE collection_key = :collection_key;

-- name: count_jobs_of
-- Of each of these collections, in their order; none of one that is not there.
SELECT (SELECT count(*) FROM {schema}.job_collection AS collection
          JOIN {schema}.job ON job.collection_key = collection.key
         WHERE collection.subscription_folded = one.subscription
           AND collection.resource_group_folded = one.resource_group AND collection.name_folded = one.name)
  FROM unnest(:subscriptions::text[], :resource_groups::text[], :names::text[])
       WITH ORDINALITY AS one (subscription, resource_group, name, place)
 ORDER BY place;

-- name: list_jobs
SELECT {standing_columns}, job.definition FROM {jobs_of}
 WHERE job.collection_key = :collection_key AND (:state::text IS NULL OR job.state = :state)
 ORDER BY job.name_folded LIMIT :limit OFFSET :skip;

-- name: insert_job
INSERT INTO {schema}.job (collection_key, name, name_folded, uid, generation, state, catch_up, overlap, created_at,
                          updated_at, next_at, armed_at, fired_at, occurrences, last_execution_at, executions,
                          failures, faults, outcome_at, outcome_failed, ended_at, definition)
VALUES (:collection_key, :name, :name_folded, :uid, :generation, :state, :catch_up, :overlap, :created_at,
        :updated_at, :next_at, :armed_at, :fired_at, :occurrences, :last_execution_at, :executions,
        :failures, :faults, :outcome_at, :outcome_failed,
        CASE WHEN :state IN ('completed', 'faulted') THEN :now::timestamptz END, :definition)
RETURNING key;

-- name: update_job
UPDATE {schema}.job
   SET uid = :uid, generation = :generation, state = :state, catch_up = :catch_up, overlap = :overlap,
       created_at = :created_at, updated_at = :updated_at, next_at = :next_at, armed_at = :armed_at,
       fired_at = :fired_at, occurrences = :occurrences, last_execution_at = :last_execution_at,
       executions = :executions, failures = :failures, faults = :faults, outcome_at = :outcome_at,
       outcome_failed = :outcome_failed, definition = :definition,
       ended_at = CASE WHEN :state IN ('completed', 'faulted') THEN coalesce(ended_at, :now::timestamptz) END
 WHERE key = :key;

-- name: job_keys
-- Locked in this order, as everywhere.
SELECT key FROM {schema}.job WHERE collection_key = :collection_key ORDER BY key FOR UPDATE;

-- name: leave_history
-- Nobody sees it any more; it goes with the next rounds of pruning.
INSERT INTO {schema}.job_gone (job_key)
SELECT key FROM {schema}.job WHERE key = ANY (:keys::bigint[]) AND entries > 0;

-- name: delete_secrets
DELETE FROM {schema}.job_sealed_secret WHERE job_key = ANY (:keys::bigint[]);

-- name: delete_job_tasks
DELETE FROM {schema}.job_task WHERE job_key = ANY (:keys::bigint[]);

-- name: delete_jobs
DELETE FROM {schema}.job WHERE key = ANY (:keys::bigint[]);

-- name: secrets_of
SELECT place, sealed FROM {schema}.job_sealed_secret
 WHERE job_key = :job_key AND EXISTS (SELECT 1 FROM {schema}.job WHERE key = :job_key AND uid = :uid);

-- name: insert_secrets
INSERT INTO {schema}.job_sealed_secret (job_key, place, sealed)
SELECT * FROM unnest(:job_key::bigint[], :place::text[], :sealed::text[]);

-- name: next_due
-- The first entry of the index, however many there are.
SELECT armed_at FROM {schema}.job WHERE armed_at IS NOT NULL ORDER BY armed_at LIMIT 1;

-- name: list_due
-- What is at work is known exactly: of the few tasks that a job's firings left, those that have not settled.
SELECT {standing_columns}, job.definition, {collection_columns},
       (SELECT count(*) FROM {schema}.job_task JOIN {schema}.task ON task.id = job_task.task_id
         WHERE job_task.job_key = job.key AND {is_at_work})
  FROM {jobs_of}
 WHERE job.armed_at <= :now
 ORDER BY job.armed_at, job.key LIMIT :limit;

-- name: jobs_by_key
-- How they stand, not what they are. Locked until the commit, in the order of their keys.
SELECT {standing_columns}, NULL FROM {jobs_of}
 WHERE job.key = ANY (:keys::bigint[])
 ORDER BY job.key FOR UPDATE OF job;

-- name: put_standings
UPDATE {schema}.job
   SET state = one.state, next_at = one.next_at, armed_at = one.armed_at, fired_at = one.fired_at,
       occurrences = one.occurrences, last_execution_at = one.last_execution_at, executions = one.executions,
       failures = one.failures, faults = one.faults, outcome_at = one.outcome_at,
       outcome_failed = one.outcome_failed, entries = one.entries,
       ended_at = CASE WHEN one.state IN ('completed', 'faulted') THEN coalesce(job.ended_at, one.now) END
  FROM unnest(:key::bigint[], :state::text[], :next_at::timestamptz[], :armed_at::timestamptz[],
              :fired_at::timestamptz[], :occurrences::bigint[], :last_execution_at::timestamptz[],
              :executions::bigint[], :failures::bigint[], :faults::bigint[], :outcome_at::timestamptz[],
              :outcome_failed::boolean[], :entries::bigint[], :now::timestamptz[])
       AS one (key, state, next_at, armed_at, fired_at, occurrences, last_execution_at, executions, failures,
               faults, outcome_at, outcome_failed, entries, now)
 WHERE job.key = one.key;

-- name: forget_settled
DELETE FROM {schema}.job_task
 WHERE job_key = ANY (:keys::bigint[])
   AND NOT EXISTS (SELECT 1 FROM {schema}.task WHERE task.id = job_task.task_id
                      AND {is_at_work});

-- name: insert_job_tasks
INSERT INTO {schema}.job_task (job_key, task_id)
SELECT * FROM unnest(:job_key::bigint[], :task_id::text[])
ON CONFLICT DO NOTHING;

-- name: insert_history
-- What was said before is not said again.
INSERT INTO {schema}.job_history (job_key, generation, at, by_hand, action, retry, status, expected_at, started_at,
                                  ended_at, repeat, instants, message)
SELECT * FROM unnest(:job_key::bigint[], :generation::bigint[], :at::timestamptz[], :by_hand::boolean[],
                     :action::text[], :retry::bigint[], :status::text[], :expected_at::timestamptz[],
                     :started_at::timestamptz[], :ended_at::timestamptz[], :repeat::bigint[], :instants::bigint[],
                     :message::text[])
ON CONFLICT DO NOTHING
RETURNING job_key, generation, at, by_hand, action, retry;

-- name: cut_history
-- The oldest of each job, so many.
DELETE FROM {schema}.job_history
 WHERE number IN (
       SELECT oldest.number
         FROM unnest(:job_key::bigint[], :excess::bigint[]) AS one (job_key, excess)
        CROSS JOIN LATERAL (
              SELECT number FROM {schema}.job_history AS entry WHERE entry.job_key = one.job_key
               ORDER BY started_at, number LIMIT one.excess) AS oldest);

-- name: list_history
-- Of a job that is gone there may still be something; it is nobody's.
SELECT {history_columns} FROM {schema}.job_history
 WHERE job_key = :job_key AND EXISTS (SELECT 1 FROM {schema}.job WHERE key = :job_key)
   AND (:status::text IS NULL OR status = :status) AND (:action::text IS NULL OR action = :action)
   AND (:since::timestamptz IS NULL OR started_at >= :since) AND (:until::timestamptz IS NULL OR started_at < :until)
 ORDER BY started_at DESC, number DESC LIMIT :limit OFFSET :skip;

-- name: stranded_jobs
-- Those that wait for their last occurrence, whose task has settled without a word about it.
SELECT {standing_columns}, NULL FROM {jobs_of}
 WHERE job.state = 'enabled' AND job.next_at IS NULL AND job.fired_at IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM {schema}.job_task JOIN {schema}.task ON task.id = job_task.task_id
                    WHERE job_task.job_key = job.key AND {is_at_work})
 ORDER BY job.key LIMIT :limit FOR UPDATE OF job SKIP LOCKED;

-- name: jobs_ended
-- What somebody is just writing is left for the next round. (The same below.)
SELECT key FROM {schema}.job WHERE ended_at < :ended_before ORDER BY ended_at, key LIMIT :limit FOR UPDATE SKIP LOCKED;

-- name: prune_gone
DELETE FROM {schema}.job_history
 WHERE number IN (
       SELECT number FROM {schema}.job_gone JOIN {schema}.job_history USING (job_key)
        ORDER BY job_gone.job_key LIMIT :limit FOR UPDATE OF job_history SKIP LOCKED)
RETURNING number;

-- name: forget_gone
-- Those whose history is gone as well: the first of them lose theirs first.
DELETE FROM {schema}.job_gone
 WHERE job_key IN (SELECT job_key FROM {schema}.job_gone ORDER BY job_key LIMIT :limit FOR UPDATE SKIP LOCKED)
   AND NOT EXISTS (SELECT 1 FROM {schema}.job_history WHERE job_history.job_key = job_gone.job_key);

-- name: prune_history
-- The jobs first, as everybody does who writes a history: how many entries each has is written with it.
WITH old AS MATERIALIZED (
    SELECT number, job_key FROM {schema}.job_history WHERE started_at < :started_before
     ORDER BY started_at, number LIMIT :limit),
ours AS MATERIALIZED (
    SELECT key FROM {schema}.job WHERE key IN (SELECT job_key FROM old) ORDER BY key FOR UPDATE SKIP LOCKED)
DELETE FROM {schema}.job_history
 USING old JOIN ours ON ours.key = old.job_key
 WHERE job_history.number = old.number
RETURNING job_history.job_key;

-- name: count_down
UPDATE {schema}.job SET entries = job.entries - one.number
  FROM unnest(:key::bigint[], :number::bigint[]) AS one (key, number)
 WHERE job.key = one.key;
