-- name: control_columns
subject, name, paused, breaker, "by", reason, at

-- name: list_controls
-- At most as many as there are workflows and agents.
SELECT {control_columns} FROM control ORDER BY subject, name;

-- name: control_of
SELECT {control_columns} FROM control WHERE subject = :subject AND name = :name;

-- name: put_control
INSERT INTO control ({control_columns}) VALUES (:subject, :name, :paused, :breaker, :by, :reason, :at)
ON CONFLICT (subject, name) DO UPDATE
   SET paused = excluded.paused, breaker = excluded.breaker, "by" = excluded."by",
       reason = excluded.reason, at = excluded.at;

-- name: drop_control
DELETE FROM control WHERE subject = :subject AND name = :name;

-- name: forgive
-- A person has looked at what had to be recovered so often: the count begins anew.
DELETE FROM recovery
 WHERE CASE :subject WHEN 'agent' THEN agent = :name ELSE workflow = :name AND agent IS NULL END;

-- name: call_for_agent
-- Tasks that were parked because an agent would not begin their steps: the supervisor wakes them now.
-- A step that was only planned has no input yet, and nobody waits for it. An undo that is parked without
-- a time waits for a person or a child. Whatever else is met here is woken for nothing, and parks again.
UPDATE task SET wake_at = :now
 WHERE key IN (
       SELECT key FROM task INDEXED BY task_unusual
        WHERE state IN ('waiting', 'error', 'undoing', 'undone', 'undo_failed', 'cancelled')
          AND state IN ('waiting', 'undoing') AND parked = 1
          AND (wake_at > :now OR wake_at IS NULL AND state = 'waiting')
          AND EXISTS (SELECT 1 FROM step
                       WHERE step.task_key = task.key AND step.agent = :agent
                         AND CASE task.state
                             WHEN 'waiting' THEN step.state = 'pending' AND step.input IS NOT NULL
                             ELSE step.state IN ('completed', 'failed', 'undoing') AND step."undo" = 'automatic'
                             END)
        LIMIT :limit);

-- name: alert_columns
id, kind, target, task_id, step, message, at, acknowledged_by, acknowledged_at, count,
coalesce(last_at, at)

-- name: list_alerts
SELECT {alert_columns} FROM alert WHERE id < :before ORDER BY id DESC LIMIT :limit;

-- name: list_open_alerts
SELECT {alert_columns} FROM alert INDEXED BY alert_open
 WHERE acknowledged_at IS NULL AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: alert_of
SELECT {alert_columns} FROM alert WHERE id = :alert_id;

-- name: acknowledge
UPDATE alert SET acknowledged_by = :by, acknowledged_at = :now WHERE id = :alert_id
RETURNING {alert_columns};

-- name: take_up
-- Whoever acts on what an alert tells of has seen it.
UPDATE alert SET acknowledged_by = :by, acknowledged_at = :now
 WHERE target = :target AND acknowledged_at IS NULL
   AND (:step IS NULL OR step IS NULL OR step = :step);

-- name: entry_columns
id, at, who, action, target, reason, "before", "after"

-- name: insert_entry
INSERT INTO audit (at, who, action, target, reason, "before", "after")
VALUES (:at, :who, :action, :target, :reason, :before, :after);

-- name: list_entries
SELECT {entry_columns} FROM audit WHERE id < :before ORDER BY id DESC LIMIT :limit;

-- name: list_entries_of
SELECT {entry_columns} FROM audit WHERE target = :target AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: token_columns
name, role, digest, created_at, revoked_at

-- name: list_tokens
SELECT {token_columns} FROM token ORDER BY name;

-- name: count_tokens
SELECT count(*) FROM token;

-- name: token_of
SELECT {token_columns} FROM token WHERE name = :name;

-- name: insert_token
INSERT INTO token ({token_columns}) VALUES (:name, :role, :digest, :created_at, :revoked_at)
ON CONFLICT DO NOTHING
RETURNING name;

-- name: revoke_token
UPDATE token SET revoked_at = :now WHERE name = :name RETURNING {token_columns};

-- name: forget_keys
DELETE FROM idempotency_key WHERE key IN (
       SELECT key FROM idempotency_key WHERE created_at < :before ORDER BY created_at LIMIT :limit);

-- name: remember_key
-- One that has expired may be used anew.
INSERT INTO idempotency_key (key, digest, task_id, created_at) VALUES (:key, :digest, :task_id, :now)
ON CONFLICT (key) DO UPDATE
   SET digest = excluded.digest, task_id = excluded.task_id, created_at = excluded.created_at
 WHERE idempotency_key.created_at < :before
RETURNING digest, task_id;

-- name: remembered_key
SELECT digest, task_id FROM idempotency_key WHERE key = :key;

-- name: forget_key
DELETE FROM idempotency_key WHERE key = :key AND digest = :digest AND task_id = :task_id;
