-- name: holding_columns
stream, grp, partition, epoch, checkpoint

-- name: quarantine_columns
id, stream, grp, partition, "offset", key, event_id, headers, enqueued_at, reason, at, resubmitted, body

-- name: insert_checkpoints
-- Partitions that are held for a group for the first time. In order, as everybody does who touches more than
-- one, so that no two transactions wait for each other.
INSERT INTO {schema}.checkpoint (stream, grp, partition, log, epoch, updated_at)
SELECT :stream, :grp, partition, :log, 0, {now} FROM unnest(:partitions::bigint[]) AS partition ORDER BY partition
ON CONFLICT DO NOTHING;

-- name: is_in_another_log
SELECT EXISTS (SELECT 1 FROM {schema}.checkpoint
                WHERE stream = :stream AND grp = :grp AND log <> :log AND checkpoint IS NOT NULL);

-- name: is_free
-- Nobody reads it who lives, and gave a sign of life lately.
NOT EXISTS (SELECT 1 FROM {schema}.instance WHERE id = checkpoint.holder AND live AND NOT ({is_late}))

-- name: take_partitions
-- Those are locked by now: what is asked here is newer than that.
UPDATE {schema}.checkpoint SET holder = :owner, log = :log, epoch = epoch + 1, updated_at = {now}
 WHERE stream = :stream AND grp = :grp AND partition = ANY (:partitions::bigint[])
   AND {is_free};

-- name: holdings_of
SELECT {holding_columns} FROM {schema}.checkpoint
 WHERE stream = :stream AND grp = :grp AND holder = :owner
 ORDER BY partition;

-- name: release_partitions
WITH held AS MATERIALIZED (
    SELECT stream, grp, partition
      FROM unnest(:stream::text[], :grp::text[], :partition::bigint[], :epoch::bigint[], :owner::text[])
           AS one (stream, grp, partition, epoch, owner)
      JOIN {schema}.checkpoint USING (stream, grp, partition)
     WHERE checkpoint.epoch = one.epoch AND checkpoint.holder = one.owner
     ORDER BY stream, grp, partition FOR UPDATE OF checkpoint)
UPDATE {schema}.checkpoint SET holder = NULL
  FROM held
 WHERE checkpoint.stream = held.stream AND checkpoint.grp = held.grp AND checkpoint.partition = held.partition;

-- name: move_checkpoints
-- The fence of whatever a holder writes: only what is its own, under the epoch named, and while it lives.
-- The instance first, then the partitions in their order, as everybody does; all of it is locked until the
-- commit. Declaring the instance dead, or taking a partition, has to wait for that, and what is written
-- after it finds another epoch.
WITH owner AS MATERIALIZED (
    SELECT id, epoch FROM {schema}.instance
     WHERE live AND id = ANY (:holder::text[]) ORDER BY id FOR KEY SHARE),
held AS MATERIALIZED (
    SELECT stream, grp, partition, move.reached, checkpoint.checkpoint AS before
      FROM unnest(:stream::text[], :grp::text[], :partition::bigint[], :epoch::bigint[], :holder::text[],
                  :holder_epoch::bigint[], :reached::bigint[])
           AS move (stream, grp, partition, epoch, holder, holder_epoch, reached)
      JOIN owner ON owner.id = move.holder AND owner.epoch = move.holder_epoch
      JOIN {schema}.checkpoint USING (stream, grp, partition)
     WHERE checkpoint.epoch = move.epoch AND checkpoint.holder = move.holder
     ORDER BY stream, grp, partition FOR UPDATE OF checkpoint)
UPDATE {schema}.checkpoint
   SET checkpoint = greatest(checkpoint.checkpoint, held.reached),
       updated_at = CASE WHEN held.reached > coalesce(checkpoint.checkpoint, -1) THEN {now}
                         ELSE checkpoint.updated_at END
  FROM held
 WHERE checkpoint.stream = held.stream AND checkpoint.grp = held.grp AND checkpoint.partition = held.partition
RETURNING checkpoint.stream, checkpoint.grp, checkpoint.partition, held.before;

-- name: list_standings
-- As many as there are groups in partitions. Who has ended reads no more, whatever the row still says.
SELECT stream, grp, partition, checkpoint, instance.id, checkpoint.epoch, updated_at
  FROM {schema}.checkpoint LEFT JOIN {schema}.instance ON instance.id = checkpoint.holder AND instance.live
 WHERE stream = :stream
 ORDER BY grp COLLATE "C", partition;

-- name: partitions_of
-- Locked until the commit: nobody takes one of them meanwhile, or writes under it.
SELECT partition FROM {schema}.checkpoint WHERE stream = :stream AND grp = :grp ORDER BY partition FOR UPDATE;

-- name: readers_of
SELECT DISTINCT instance.id COLLATE "C"
  FROM {schema}.checkpoint JOIN {schema}.instance ON instance.id = checkpoint.holder AND instance.live
 WHERE stream = :stream AND grp = :grp
 ORDER BY 1;

-- name: forget_checkpoints
DELETE FROM {schema}.checkpoint WHERE stream = :stream AND grp = :grp;

-- name: forget_quarantine
DELETE FROM {schema}.quarantine WHERE stream = :stream AND grp = :grp RETURNING id;

-- name: settle_quarantined
-- Only what is in the partition of whoever says so. In the order of their ids, as everybody does.
WITH done AS MATERIALIZED (
    SELECT quarantine.id
      FROM unnest(:quarantined::bigint[], :stream::text[], :grp::text[], :partition::bigint[])
           AS one (id, stream, grp, partition)
      JOIN {schema}.quarantine USING (id, stream, grp, partition)
     ORDER BY quarantine.id FOR UPDATE OF quarantine)
DELETE FROM {schema}.quarantine USING done WHERE quarantine.id = done.id
RETURNING stream, grp, partition, "offset";

-- name: set_aside
-- Once, however often that is said.
INSERT INTO {schema}.quarantine (stream, grp, partition, "offset", key, event_id, headers, enqueued_at, reason,
                                 at, body)
SELECT * FROM unnest(:stream::text[], :grp::text[], :partition::bigint[], :offset::bigint[], :key::text[],
                     :event_id::text[], :headers::text[], :enqueued_at::timestamptz[], :reason::text[],
                     :at::timestamptz[], :body::bytea[])
ON CONFLICT (stream, grp, partition, "offset") DO NOTHING
RETURNING id;

-- name: count_quarantined
SELECT count(*) FROM (
       SELECT 1 FROM {schema}.quarantine WHERE stream = :stream AND grp = :grp LIMIT :counted) AS found;

-- name: list_quarantined
SELECT {quarantine_columns} FROM {schema}.quarantine
 WHERE stream = :stream AND id > :after
 ORDER BY id LIMIT :limit;

-- name: list_quarantined_of
SELECT {quarantine_columns} FROM {schema}.quarantine
 WHERE stream = :stream AND grp = :grp AND id > :after
 ORDER BY id LIMIT :limit;

-- name: quarantine_sizes
SELECT one.grp, (SELECT count(*) FROM (
                        SELECT 1 FROM {schema}.quarantine
                         WHERE stream = :stream AND quarantine.grp = one.grp LIMIT :counted) AS found)
  FROM (SELECT DISTINCT grp FROM {schema}.checkpoint WHERE stream = :stream) AS one
 ORDER BY one.grp COLLATE "C";

-- name: quarantined_by_id
-- Locked until the commit, in this order, as everybody does: what is settled meanwhile is not there any more.
SELECT id, grp FROM {schema}.quarantine WHERE id = ANY (:quarantined::bigint[]) AND stream = :stream
 ORDER BY id FOR UPDATE;

-- name: quarantined_to_resubmit
-- What is just being settled is left alone.
SELECT id, grp FROM {schema}.quarantine
 WHERE stream = :stream AND NOT resubmitted
 ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED;

-- name: resubmit_quarantined
UPDATE {schema}.quarantine SET resubmitted = true WHERE id = ANY (:quarantined::bigint[]);

-- name: list_resubmitted
SELECT {quarantine_columns} FROM {schema}.quarantine
 WHERE stream = :stream AND grp = :grp AND resubmitted AND partition = ANY (:partitions::bigint[])
 ORDER BY id LIMIT :limit;
