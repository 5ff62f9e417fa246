-- name: control_columns
subject, name, paused, breaker, "by", reason, at

-- name: list_controls
-- At most as many as there are workflows and agents.
SELECT {control_columns} FROM {schema}.control ORDER BY subject COLLATE "C", name COLLATE "C";

-- name: control_of
SELECT {control_columns} FROM {schema}.control WHERE subject = :subject AND name = :name;

-- name: put_control
INSERT INTO {schema}.control ({control_columns})
VALUES (:subject, :name, :paused, :breaker, :by, :reason, :at)
ON CONFLICT (subject, name) DO UPDATE
   SET paused = excluded.paused, breaker = excluded.breaker, "by" = excluded."by",
       reason = excluded.reason, at = excluded.at;

-- name: drop_control
DELETE FROM {schema}.control WHERE subject = :subject AND name = :name;

-- name: forgive
-- A person has looked at what had to be recovered so often: the count begins anew.
DELETE FROM {schema}.recovery
 WHERE CASE :subject::text WHEN 'agent' THEN agent = :name ELSE workflow = :name AND agent IS NULL END;

-- name: call_for_agent
-- Tasks that were parked because an agent would not begin their steps: the supervisor wakes them now.
-- A step that was only planned has no input yet, and nobody waits for it. An undo that is parked without
-- a time waits for a person or a child. Whatever else is met here is woken for nothing, and parks again.
-- What somebody is just writing wakes by its own time.
UPDATE {schema}.task SET wake_at = {now}
 WHERE key IN (
       SELECT key FROM {schema}.task
        WHERE state IN ('waiting', 'error', 'undoing', 'undone', 'undo_failed', 'cancelled')
          AND state IN ('waiting', 'undoing') AND parked
          AND (wake_at > {now} OR wake_at IS NULL AND state = 'waiting')
          AND EXISTS (SELECT 1 FROM {schema}.step
                       WHERE step.task_key = task.key AND step.agent = :agent
                         AND CASE task.state
                             WHEN 'waiting' THEN step.state = 'pending' AND step.input IS NOT NULL
                             ELSE step.state IN ('completed', 'failed', 'undoing') AND step.undo = 'automatic'
                             END)
        LIMIT :limit
          FOR UPDATE SKIP LOCKED);

-- name: alert_columns
id, kind, target, task_id, step, message, at, acknowledged_by, acknowledged_at, count,
coalesce(last_at, at)

-- name: list_alerts
SELECT {alert_columns} FROM {schema}.alert WHERE id < :before ORDER BY id DESC LIMIT :limit;

-- name: list_open_alerts
SELECT {alert_columns} FROM {schema}.alert
 WHERE acknowledged_at IS NULL AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: alert_of
-- Locked until the commit: of two who take it up at the same time, the second finds the first.
SELECT {alert_columns} FROM {schema}.alert WHERE id = :alert_id FOR UPDATE;

-- name: acknowledge
UPDATE {schema}.alert SET acknowledged_by = :by, acknowledged_at = :now WHERE id = :alert_id
RETURNING {alert_columns};

-- name: take_up
-- Whoever acts on what an alert tells of has seen it.
UPDATE {schema}.alert SET acknowledged_by = :by, acknowledged_at = :now
 WHERE target = :target AND acknowledged_at IS NULL
   AND (:step::text IS NULL OR step IS NULL OR step = :step::text);

-- name: entry_columns
id, at, who, action, target, reason, "before"::text, "after"::text

-- name: insert_entry
INSERT INTO {schema}.audit (at, who, action, target, reason, "before", "after")
VALUES (:at, :who, :action, :target, :reason, :before::text::jsonb, :after::text::jsonb);

-- name: list_entries
SELECT {entry_columns} FROM {schema}.audit WHERE id < :before ORDER BY id DESC LIMIT :limit;

-- name: list_entries_of
SELECT {entry_columns} FROM {schema}.audit
 WHERE target = :target AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: token_columns
name, role, digest, created_at, revoked_at

-- name: list_tokens
SELECT {token_columns} FROM {schema}.token ORDER BY name COLLATE "C";

-- name: count_tokens
SELECT count(*) FROM {schema}.token;

-- name: token_of
-- Locked until the commit, as with an alert.
SELECT {token_columns} FROM {schema}.token WHERE name = :name FOR UPDATE;

-- name: insert_token
INSERT INTO {schema}.token ({token_columns}) VALUES (:name, :role, :digest, :created_at, :revoked_at)
ON CONFLICT DO NOTHING
RETURNING name;

-- name: revoke_token
UPDATE {schema}.token SET revoked_at = :now WHERE name = :name RETURNING {token_columns};

-- name: forget_keys
DELETE FROM {schema}.idempotency_key WHERE key IN (
       SELECT key FROM {schema}.idempotency_key
        WHERE created_at < {now} - :keep::interval
        ORDER BY created_at
        LIMIT :limit
          FOR UPDATE SKIP LOCKED);

-- name: remember_key
-- One that has expired may be used anew.
INSERT INTO {schema}.idempotency_key (key, digest, task_id, created_at)
VALUES (:key, :digest, :task_id, {now})
ON CONFLICT (key) DO UPDATE
   SET digest = excluded.digest, task_id = excluded.task_id, created_at = excluded.created_at
 WHERE idempotency_key.created_at < {now} - :keep::interval
RETURNING digest, task_id;

-- name: remembered_key
SELECT digest, task_id FROM {schema}.idempotency_key WHERE key = :key;

-- name: forget_key
DELETE FROM {schema}.idempotency_key WHERE key = :key AND digest = :digest AND task_id = :task_id;
