-- What a process of this schema goes on writing after another has brought the store up to date: the statements
-- of its release, with values.
INSERT INTO instance (id, epoch, live, host, pid, runs, roles, started_at, heartbeat_at)
VALUES ('old', 1, 1, 'localhost', 3, '[["ship", 1]]', '["scheduler"]', 1767620000000000, 1767620000000000);
UPDATE instance SET heartbeat_at = 1767620001000000, report = coalesce('{"in_flight": 1}', report)
 WHERE id = 'old' AND epoch = 1 AND live = 1;

-- A task is submitted, claimed, run and left.
INSERT INTO task (id, workflow, version, input, hard_end, reply_to, attributes, parent_key, parent_step,
                  created_at, state, updated_at)
VALUES ('by-the-old', 'ship', 1, x'37', NULL, NULL, '{}', NULL, NULL, 1767620000000000, 'pending', 1767620000000000)
ON CONFLICT (id) DO NOTHING
RETURNING key;
UPDATE task
   SET state = CASE state WHEN 'pending' THEN 'processing' ELSE state END,
       locked_by = 'old', lock_number = lock_number + 1, complete_by = 1767620600000000,
       wake_at = NULL, updated_at = 1767620000000000
 WHERE id = 'by-the-old';
INSERT INTO step (task_key, key, agent, operation, complete_by, input, started_at, "undo", pivot,
                  kind, state, attempt, failure_count, undo_attempt, undo_failures, unsure)
SELECT key, 'charge:1', 'bank', 'charge', 1767620030000000, CAST('7' AS BLOB), 1767620000000000, 'automatic', 0,
       'step', 'running', 1, 0, 0, 0, 0
  FROM task WHERE id = 'by-the-old';
UPDATE step
   SET state = 'completed', output = CAST('"receipt 7"' AS BLOB), ended_at = 1767620001000000, position = 1
 WHERE task_key = (SELECT key FROM task WHERE id = 'by-the-old') AND key = 'charge:1';
UPDATE task
   SET state = 'processed', output = CAST('"receipt 7"' AS BLOB), error = NULL, complete_by = NULL, locked_by = NULL,
       wake_at = NULL, parked = 0, updated_at = 1767620001000000, request = NULL
 WHERE id = 'by-the-old';

-- One more that it leaves to whoever comes.
INSERT INTO task (id, workflow, version, input, hard_end, reply_to, attributes, parent_key, parent_step,
                  created_at, state, updated_at)
VALUES ('for-the-new', 'ship', 1, x'37', NULL, NULL, '{}', NULL, NULL, 1767620000000000, 'pending', 1767620000000000)
ON CONFLICT (id) DO NOTHING
RETURNING key;

-- It calls a person: for the first time, again, and where one is called once.
INSERT INTO alert (kind, target, task_id, step, message, at)
VALUES ('task_error', 'task:by-the-old', 'by-the-old', 'charge:1', 'Refused: no', 1767620000000000);
INSERT INTO alert (kind, target, task_id, step, message, at)
VALUES ('task_error', 'task:by-the-old', 'by-the-old', 'charge:1', 'Refused: no', 1767620001000000);
INSERT INTO alert (kind, target, task_id, step, message, at)
VALUES ('submission_conflict', 'queue:orders', NULL, NULL, 'which one?', 1767620001000000);
INSERT INTO alert (kind, target, message, at) VALUES ('queue_full', 'queue:rings', 'it is full', 1767620000000000)
ON CONFLICT (target, kind) WHERE acknowledged_at IS NULL
                            AND kind IN ('dead_letter', 'queue_full', 'quarantine') DO NOTHING
RETURNING id;
INSERT INTO alert (kind, target, message, at) VALUES ('queue_full', 'queue:rings', 'it is full', 1767620001000000)
ON CONFLICT (target, kind) WHERE acknowledged_at IS NULL
                            AND kind IN ('dead_letter', 'queue_full', 'quarantine') DO NOTHING
RETURNING id;

-- It goes on reading, and acts for a person.
UPDATE checkpoint SET checkpoint = 6, updated_at = 1767620000000000
 WHERE stream = 'telemetry' AND grp = 'archive' AND partition = 0 AND slot = 0 AND epoch = 1;
INSERT INTO audit (at, who, action, target, reason, "before", "after")
VALUES (1767620000000000, 'ann', 'cancel', 'task:by-the-old', NULL, NULL, NULL);
