-- name: holding_columns
stream, grp, partition, slot, epoch, checkpoint

-- name: quarantine_columns
id, stream, grp, partition, "offset", key, event_id, headers, enqueued_at, reason, at, resubmitted, body

-- name: is_in_another_log
SELECT EXISTS (SELECT 1 FROM checkpoint
                WHERE stream = :stream AND grp = :grp AND log <> :log AND checkpoint IS NOT NULL);

-- name: insert_units
INSERT INTO checkpoint (stream, grp, partition, slot, checkpoint, log, epoch, updated_at)
SELECT :stream, :grp, value ->> 0, value ->> 1, value ->> 2, :log, value ->> 3, :now
  FROM json_each(:units) WHERE true
ON CONFLICT DO NOTHING;

-- name: enter_member
INSERT INTO group_member (stream, grp, instance, ordinal, members)
VALUES (:stream, :grp, :instance, :ordinal, :members)
ON CONFLICT DO UPDATE SET ordinal = excluded.ordinal, members = excluded.members;

-- name: leave_group
DELETE FROM group_member WHERE stream = :stream AND grp = :grp AND instance = :instance;

-- name: forget_members
-- All of them; or those who have ended.
DELETE FROM group_member
 WHERE stream = :stream AND grp = :grp
   AND (:all = 1 OR NOT EXISTS (SELECT 1 FROM instance WHERE id = group_member.instance AND live = 1));

-- name: is_alive
-- Of an instance: it lives, and is not about to be declared dead.
instance.live = 1 AND instance.id NOT IN (SELECT value FROM json_each(:gone))

-- name: list_members
SELECT instance.id, instance.started_at, ordinal, members
  FROM group_member JOIN instance ON instance.id = group_member.instance AND {is_alive}
 WHERE stream = :stream AND grp = :grp
 ORDER BY instance.id;

-- name: list_units
SELECT stream, grp, partition, slot, checkpoint, instance.id, checkpoint.epoch, updated_at
  FROM checkpoint LEFT JOIN instance ON instance.id = checkpoint.holder AND {is_alive}
 WHERE stream = :stream AND grp = :grp
 ORDER BY partition, slot;

-- name: take_units
-- Only what has not changed hands since it was looked at.
UPDATE checkpoint SET holder = :owner, log = :log, epoch = checkpoint.epoch + 1, updated_at = :now
  FROM json_each(:units) AS wanted
 WHERE stream = wanted.value ->> 0 AND grp = wanted.value ->> 1 AND partition = wanted.value ->> 2
   AND slot = wanted.value ->> 3 AND checkpoint.epoch = wanted.value ->> 4
RETURNING {holding_columns};

-- name: release_units
UPDATE checkpoint SET holder = NULL
  FROM json_each(:holdings) AS held
 WHERE stream = held.value ->> 0 AND grp = held.value ->> 1 AND partition = held.value ->> 2
   AND slot = held.value ->> 3 AND epoch = held.value ->> 4 AND holder = :owner;

-- name: move_checkpoints
-- The fence of whatever a holder writes: only what is its own, under the epoch named, and while it lives.
UPDATE checkpoint
   SET checkpoint = coalesce(max(checkpoint, move.value ->> 7), checkpoint, move.value ->> 7),
       updated_at = CASE WHEN move.value ->> 7 > coalesce(checkpoint, -1) THEN :now ELSE updated_at END
  FROM json_each(:moves) AS move
 WHERE stream = move.value ->> 0 AND grp = move.value ->> 1 AND partition = move.value ->> 2
   AND slot = move.value ->> 3 AND checkpoint.epoch = move.value ->> 4 AND holder = move.value ->> 5
   AND EXISTS (SELECT 1 FROM instance
                WHERE instance.id = move.value ->> 5 AND instance.epoch = move.value ->> 6 AND instance.live = 1);

-- name: list_standings
-- As many as there are units of groups. Who has ended reads no more, whatever the row still says.
SELECT stream, grp, partition, slot, checkpoint, instance.id, checkpoint.epoch, updated_at
  FROM checkpoint LEFT JOIN instance ON instance.id = checkpoint.holder AND instance.live = 1
 WHERE stream = :stream
 ORDER BY grp, partition, slot;

-- name: partitions_of
SELECT partition FROM checkpoint WHERE stream = :stream AND grp = :grp ORDER BY partition, slot;

-- name: readers_of
-- Those who are members; and those who have left, and hold something until they have finished with it.
SELECT id FROM instance
 WHERE live = 1
   AND (EXISTS (SELECT 1 FROM group_member
                 WHERE stream = :stream AND grp = :grp AND group_member.instance = instance.id)
        OR id IN (SELECT holder FROM checkpoint WHERE stream = :stream AND grp = :grp))
 ORDER BY id;

-- name: forget_checkpoints
DELETE FROM checkpoint WHERE stream = :stream AND grp = :grp;

-- name: forget_quarantine
DELETE FROM quarantine WHERE stream = :stream AND grp = :grp;

-- name: settle_quarantined
-- Only what is in the partition of whoever says so.
DELETE FROM quarantine
 WHERE id IN (SELECT quarantine.id FROM json_each(:settled) AS done
               CROSS JOIN quarantine ON quarantine.id = done.value ->> 0
               WHERE stream = done.value ->> 1 AND grp = done.value ->> 2 AND partition = done.value ->> 3)
RETURNING stream, grp, partition, "offset";

-- name: set_aside
-- Once, however often that is said.
INSERT INTO quarantine (stream, grp, partition, "offset", key, event_id, headers, enqueued_at, reason, at, body)
VALUES {rows}
ON CONFLICT (stream, grp, partition, "offset") DO NOTHING;

-- name: count_quarantined
SELECT count(*) FROM (
       SELECT 1 FROM quarantine WHERE stream = :stream AND grp = :grp LIMIT :counted);

-- name: list_quarantined
SELECT {quarantine_columns} FROM quarantine
 WHERE stream = :stream AND id > :after
 ORDER BY id LIMIT :limit;

-- name: list_quarantined_of
SELECT {quarantine_columns} FROM quarantine
 WHERE stream = :stream AND grp = :grp AND id > :after
 ORDER BY id LIMIT :limit;

-- name: quarantine_sizes
SELECT one.grp, (SELECT count(*) FROM (
                        SELECT 1 FROM quarantine WHERE stream = :stream AND grp = one.grp LIMIT :counted))
  FROM (SELECT DISTINCT grp FROM checkpoint WHERE stream = :stream) AS one
 ORDER BY one.grp;

-- name: quarantined_by_id
SELECT id, grp FROM quarantine
 WHERE id IN (SELECT value FROM json_each(:quarantined)) AND stream = :stream
 ORDER BY id;

-- name: quarantined_to_resubmit
SELECT id, grp FROM quarantine
 WHERE stream = :stream AND resubmitted = 0
 ORDER BY id LIMIT :limit;

-- name: resubmit_quarantined
UPDATE quarantine SET resubmitted = 1 WHERE id IN (SELECT value FROM json_each(:quarantined));

-- name: list_resubmitted
SELECT {quarantine_columns} FROM quarantine
 WHERE stream = :stream AND grp = :grp AND resubmitted = 1
   AND partition IN (SELECT value FROM json_each(:partitions))
 ORDER BY id LIMIT :limit;
