-- What a process of this schema goes on writing after another has brought the store up to date: the statements
-- of its release, with values.
INSERT INTO {schema}.instance (id, epoch, live, host, pid, runs, roles, started_at, heartbeat_at)
VALUES ('old', 1, true, 'localhost', 3, '[["ship", 1]]', '["scheduler"]', '2026-01-05 13:33:20+00', '2026-01-05 13:33:20+00');
UPDATE {schema}.instance SET heartbeat_at = '2026-01-05 13:33:21+00', report = coalesce('{"in_flight": 1}'::jsonb, report)
 WHERE id = 'old' AND epoch = 1 AND live;

-- A task is submitted, claimed, run and left.
INSERT INTO {schema}.task (id, workflow, version, input, hard_end, reply_to, attributes, parent_key, parent_step,
                  created_at, state, updated_at)
VALUES ('by-the-old', 'ship', 1, '7'::bytea, NULL, NULL, '{}', NULL, NULL, '2026-01-05 13:33:20+00', 'pending', '2026-01-05 13:33:20+00')
ON CONFLICT (id) DO NOTHING
RETURNING key;
UPDATE {schema}.task
   SET state = CASE state WHEN 'pending' THEN 'processing' ELSE state END,
       locked_by = 'old', lock_number = lock_number + 1, complete_by = '2026-01-05 13:43:20+00',
       wake_at = NULL, updated_at = '2026-01-05 13:33:20+00'
 WHERE id = 'by-the-old';
INSERT INTO {schema}.step (task_key, key, agent, operation, complete_by, input, started_at, "undo", pivot,
                  kind, state, attempt, failure_count, undo_attempt, undo_failures, unsure)
SELECT key, 'charge:1', 'bank', 'charge', timestamptz '2026-01-05 13:33:50+00', convert_to('7', 'UTF8'), timestamptz '2026-01-05 13:33:20+00', 'automatic',
       false, 'step', 'running', 1, 0, 0, 0, false
  FROM {schema}.task WHERE id = 'by-the-old';
UPDATE {schema}.step
   SET state = 'completed', output = convert_to('"receipt 7"', 'UTF8'), ended_at = '2026-01-05 13:33:21+00', position = 1
 WHERE task_key = (SELECT key FROM {schema}.task WHERE id = 'by-the-old') AND key = 'charge:1';
UPDATE {schema}.task
   SET state = 'processed', output = convert_to('"receipt 7"', 'UTF8'), error = NULL, complete_by = NULL, locked_by = NULL,
       wake_at = NULL, parked = false, updated_at = '2026-01-05 13:33:21+00', request = NULL
 WHERE id = 'by-the-old';

-- One more that it leaves to whoever comes.
INSERT INTO {schema}.task (id, workflow, version, input, hard_end, reply_to, attributes, parent_key, parent_step,
                  created_at, state, updated_at)
VALUES ('for-the-new', 'ship', 1, '7'::bytea, NULL, NULL, '{}', NULL, NULL, '2026-01-05 13:33:20+00', 'pending', '2026-01-05 13:33:20+00')
ON CONFLICT (id) DO NOTHING
RETURNING key;

-- It calls a person: for the first time, again, and where one is called once.
INSERT INTO {schema}.alert (kind, target, task_id, step, message, at)
VALUES ('task_error', 'task:by-the-old', 'by-the-old', 'charge:1', 'Refused: no', '2026-01-05 13:33:20+00');
INSERT INTO {schema}.alert (kind, target, task_id, step, message, at)
VALUES ('task_error', 'task:by-the-old', 'by-the-old', 'charge:1', 'Refused: no', '2026-01-05 13:33:21+00');
INSERT INTO {schema}.alert (kind, target, task_id, step, message, at)
VALUES ('submission_conflict', 'queue:orders', NULL, NULL, 'which one?', '2026-01-05 13:33:21+00');
INSERT INTO {schema}.alert (kind, target, message, at) VALUES ('queue_full', 'queue:rings', 'it is full', '2026-01-05 13:33:20+00')
ON CONFLICT (target, kind) WHERE acknowledged_at IS NULL
                            AND kind IN ('dead_letter', 'queue_full', 'quarantine') DO NOTHING
RETURNING id;
INSERT INTO {schema}.alert (kind, target, message, at) VALUES ('queue_full', 'queue:rings', 'it is full', '2026-01-05 13:33:21+00')
ON CONFLICT (target, kind) WHERE acknowledged_at IS NULL
                            AND kind IN ('dead_letter', 'queue_full', 'quarantine') DO NOTHING
RETURNING id;

-- It goes on reading, and acts for a person.
UPDATE {schema}.checkpoint SET checkpoint = 6, updated_at = '2026-01-05 13:33:20+00'
 WHERE stream = 'telemetry' AND grp = 'archive' AND partition = 0 AND slot = 0 AND epoch = 1;
INSERT INTO {schema}.audit (at, who, action, target, reason, "before", "after")
VALUES ('2026-01-05 13:33:20+00', 'ann', 'cancel', 'task:by-the-old', NULL, NULL, NULL);
