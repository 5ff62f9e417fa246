-- name: correspondents
-- Those of these tasks whose submitters want to be told, as they stand, and what was told last.
SELECT task.key, task.id, task.workflow, task.reply_to, task.state, told.status, told.sequence
  FROM json_each(:keys) AS wanted CROSS JOIN task ON task.key = wanted.value
                                  CROSS JOIN told ON told.task_key = task.key
 WHERE task.reply_to IS NOT NULL;

-- name: put_told
INSERT INTO told (task_key, status, sequence) VALUES (?, ?, ?)
ON CONFLICT (task_key) DO UPDATE SET status = excluded.status, sequence = excluded.sequence;
