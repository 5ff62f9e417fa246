-- name: step_columns
task_key, key, kind, agent, operation, state, attempt, failure_count, complete_by,
input, output, error, started_at, ended_at, position, "undo",
undo_attempt, undo_failures, pivot, unsure

-- name: put_step
-- Whole rows: a run knows every field of its steps, so two transitions of one step in a batch are
-- one write, and the same statement serves the first and the last of them.
INSERT INTO step ({step_columns})
VALUES {rows}
ON CONFLICT (task_key, key) DO UPDATE
   SET state = excluded.state, attempt = excluded.attempt, failure_count = excluded.failure_count,
       complete_by = excluded.complete_by, input = excluded.input, output = excluded.output,
       error = excluded.error, started_at = excluded.started_at, ended_at = excluded.ended_at,
       position = excluded.position, "undo" = excluded."undo",
       undo_attempt = excluded.undo_attempt, undo_failures = excluded.undo_failures,
       pivot = excluded.pivot, unsure = excluded.unsure;

-- name: begin_steps
-- Part of write_batch, as all that reads NEW.
INSERT INTO step (task_key, key, agent, operation, complete_by, input, started_at, "undo", pivot,
                  kind, state, attempt, failure_count, undo_attempt, undo_failures, unsure)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, CAST(value ->> 5 AS BLOB), value ->> 6,
       value ->> 7, value ->> 8, 'step', 'running', 1, 0, 0, 0, 0
  FROM json_each(NEW.began);

-- name: complete_steps
UPDATE step
   SET state = 'completed', output = CAST(done.value ->> 2 AS BLOB), ended_at = done.value ->> 3,
       position = done.value ->> 4
  FROM json_each(NEW.completed) AS done
 WHERE step.task_key = done.value ->> 0 AND step.key = done.value ->> 1;

-- name: steps_of
SELECT {step_columns} FROM step WHERE task_key IN (SELECT value FROM json_each(:keys));

-- name: forget_steps
DELETE FROM step WHERE task_key = :task_key;

-- name: release_signals
-- A journal that begins anew may consume again what it was told.
UPDATE signal SET consumed_by = NULL WHERE task_key = :task_key;

-- name: insert_signal
INSERT INTO signal (task_key, number, name, dedup, payload, received_at)
SELECT :task_key, coalesce(max(number), 0) + 1, :name, :dedup, :payload, :now
  FROM signal WHERE task_key = :task_key
    ON CONFLICT DO NOTHING;

-- name: count_signals
SELECT count(*) FROM signal WHERE task_key = :task_key;

-- name: fresh_signals
SELECT task_key, number, name, payload FROM signal
 WHERE consumed_by IS NULL AND task_key IN (SELECT value FROM json_each(:keys))
 ORDER BY task_key, number;

-- name: consume_signal
UPDATE signal SET consumed_by = ? WHERE task_key = ? AND number = ?;

-- name: put_payload
INSERT INTO payload (task_key, digest, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- name: payloads_of
SELECT task_key, digest, body FROM payload
 WHERE (task_key, digest) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:wanted));
