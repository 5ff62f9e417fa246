-- name: correspondents
-- Those of these tasks whose submitters want to be told, as they stand, and what was told last.
SELECT task.key, task.id, task.workflow, task.reply_to, task.state, told.status, told.sequence
  FROM {schema}.task JOIN {schema}.told ON told.task_key = task.key
 WHERE task.key = ANY (:keys::bigint[]) AND task.reply_to IS NOT NULL;

-- name: put_told
INSERT INTO {schema}.told (task_key, status, sequence)
SELECT * FROM unnest(:task_keys::bigint[], :statuses::text[], :sequences::bigint[])
ON CONFLICT (task_key) DO UPDATE SET status = excluded.status, sequence = excluded.sequence;
