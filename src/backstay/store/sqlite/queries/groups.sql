-- name: holding_columns
stream, grp, partition, epoch, checkpoint

-- name: quarantine_columns
id, stream, grp, partition, "offset", key, event_id, headers, enqueued_at, reason, at, resubmitted, body

-- name: insert_checkpoints
-- Partitions that are held for a group for the first time.
INSERT INTO checkpoint (stream, grp, partition, log, epoch, updated_at)
SELECT :stream, :grp, value, :log, 0, :now FROM json_each(:partitions) WHERE true
ON CONFLICT DO NOTHING;

-- name: is_in_another_log
SELECT EXISTS (SELECT 1 FROM checkpoint
                WHERE stream = :stream AND grp = :grp AND log <> :log AND checkpoint IS NOT NULL);

-- name: is_free
-- Nobody reads it who lives. Those who are about to be declared dead are named.
NOT EXISTS (SELECT 1 FROM instance
             WHERE id = checkpoint.holder AND live = 1 AND id NOT IN (SELECT value FROM json_each(:gone)))

-- name: take_partitions
UPDATE checkpoint SET holder = :owner, log = :log, epoch = epoch + 1, updated_at = :now
 WHERE stream = :stream AND grp = :grp AND partition IN (SELECT value FROM json_each(:partitions))
   AND {is_free};

-- name: holdings_of
SELECT {holding_columns} FROM checkpoint
 WHERE stream = :stream AND grp = :grp AND holder = :owner
 ORDER BY partition;

-- name: release_partitions
UPDATE checkpoint SET holder = NULL
  FROM json_each(:holdings) AS held
 WHERE stream = held.value ->> 0 AND grp = held.value ->> 1 AND partition = held.value ->> 2
   AND epoch = held.value ->> 3 AND holder = :owner;

-- name: move_checkpoints
-- The fence of whatever a holder writes: only what is its own, under the epoch named, and while it lives.
UPDATE checkpoint
   SET checkpoint = coalesce(max(checkpoint, move.value ->> 6), checkpoint, move.value ->> 6),
       updated_at = CASE WHEN move.value ->> 6 > coalesce(checkpoint, -1) THEN :now ELSE updated_at END
  FROM json_each(:moves) AS move
 WHERE stream = move.value ->> 0 AND grp = move.value ->> 1 AND partition = move.value ->> 2
   AND checkpoint.epoch = move.value ->> 3 AND holder = move.value ->> 4
   AND EXISTS (SELECT 1 FROM instance
                WHERE instance.id = move.value ->> 4 AND instance.epoch = move.value ->> 5 AND instance.live = 1);

-- name: list_standings
-- As many as there are groups in partitions. Who has ended reads no more, whatever the row still says.
SELECT stream, grp, partition, checkpoint, instance.id, checkpoint.epoch, updated_at
  FROM checkpoint LEFT JOIN instance ON instance.id = checkpoint.holder AND instance.live = 1
 WHERE stream = :stream
 ORDER BY grp, partition;

-- name: partitions_of
SELECT partition FROM checkpoint WHERE stream = :stream AND grp = :grp ORDER BY partition;

-- name: readers_of
SELECT DISTINCT instance.id
  FROM checkpoint JOIN instance ON instance.id = checkpoint.holder AND instance.live = 1
 WHERE stream = :stream AND grp = :grp
 ORDER BY instance.id;

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
