-- name: step_columns
task_key, key, kind, agent, operation, state, attempt, failure_count, complete_by,
input, output, error, started_at, ended_at, position, undo,
undo_attempt, undo_failures, pivot, unsure

-- name: put_step
-- Whole rows: a run knows every field of its steps, so two transitions of one step in a batch are
-- one write, and the same statement serves the first and the last of them.
INSERT INTO {schema}.step ({step_columns})
SELECT * FROM unnest(
       :task_key::bigint[], :key::text[], :kind::text[], :agent::text[], :operation::text[], :state::text[],
       :attempt::bigint[], :failure_count::bigint[], :complete_by::timestamptz[],
       :input::bytea[], :output::bytea[], :error::bytea[], :started_at::timestamptz[], :ended_at::timestamptz[],
       :position::bigint[], :undo::text[], :undo_attempt::bigint[], :undo_failures::bigint[],
       :pivot::boolean[], :unsure::boolean[])
ON CONFLICT (task_key, key) DO UPDATE
   SET state = excluded.state, attempt = excluded.attempt, failure_count = excluded.failure_count,
       complete_by = excluded.complete_by, input = excluded.input, output = excluded.output,
       error = excluded.error, started_at = excluded.started_at, ended_at = excluded.ended_at,
       position = excluded.position, undo = excluded.undo,
       undo_attempt = excluded.undo_attempt, undo_failures = excluded.undo_failures,
       pivot = excluded.pivot, unsure = excluded.unsure;

-- name: begin_steps
INSERT INTO {schema}.step (task_key, key, agent, operation, complete_by, input, started_at, undo, pivot,
                           kind, state, attempt, failure_count, undo_attempt, undo_failures, unsure)
SELECT task_key, key, agent, operation, {micros} complete_by, convert_to(input, 'UTF8'), {micros} started_at, undo,
       pivot, 'step', 'running', 1, 0, 0, 0, false
  FROM unnest(:task_key::bigint[], :key::text[], :agent::text[], :operation::text[], :complete_by::bigint[],
              :input::text[], :started_at::bigint[], :undo::text[], :pivot::boolean[])
       AS new (task_key, key, agent, operation, complete_by, input, started_at, undo, pivot);

-- name: complete_steps
UPDATE {schema}.step
   SET state = 'completed', output = convert_to(new.output, 'UTF8'), ended_at = {micros} new.ended_at,
       position = new.position
  FROM unnest(:task_key::bigint[], :key::text[], :output::text[], :ended_at::bigint[], :position::bigint[])
       AS new (task_key, key, output, ended_at, position)
 WHERE step.task_key = new.task_key AND step.key = new.key;

-- name: steps_of
SELECT {step_columns} FROM {schema}.step WHERE task_key = ANY (:keys::bigint[]);

-- name: forget_steps
DELETE FROM {schema}.step WHERE task_key = :task_key;

-- name: release_signals
-- A journal that begins anew may consume again what it was told.
UPDATE {schema}.signal SET consumed_by = NULL WHERE task_key = :task_key;

-- name: insert_signal
-- The task's row is locked: nobody else numbers its signals now.
INSERT INTO {schema}.signal (task_key, number, name, dedup, payload, received_at)
SELECT :task_key, coalesce(max(number), 0) + 1, :name, :dedup, :payload, :now
  FROM {schema}.signal WHERE task_key = :task_key
    ON CONFLICT DO NOTHING;

-- name: count_signals
SELECT count(*) FROM {schema}.signal WHERE task_key = :task_key;

-- name: fresh_signals
SELECT task_key, number, name, payload FROM {schema}.signal
 WHERE consumed_by IS NULL AND task_key = ANY (:keys::bigint[])
 ORDER BY task_key, number;

-- name: consume_signal
UPDATE {schema}.signal SET consumed_by = used.by
  FROM unnest(:by::text[], :task_key::bigint[], :number::bigint[]) AS used (by, task_key, number)
 WHERE signal.task_key = used.task_key AND signal.number = used.number;

-- name: put_payload
INSERT INTO {schema}.payload (task_key, digest, body)
SELECT * FROM unnest(:task_key::bigint[], :digest::text[], :body::bytea[])
ON CONFLICT DO NOTHING;

-- name: payloads_of
SELECT payload.task_key, payload.digest, payload.body
  FROM unnest(:task_key::bigint[], :digest::text[]) AS wanted (task_key, digest)
  JOIN {schema}.payload ON payload.task_key = wanted.task_key AND payload.digest = wanted.digest;
