-- name: holding_columns
checkpoint.stream, checkpoint.grp, checkpoint.partition, checkpoint.slot, checkpoint.epoch, checkpoint.checkpoint

-- name: quarantine_columns
id, stream, grp, partition, "offset", key, event_id, headers, enqueued_at, reason, at, resubmitted, body

-- name: is_in_another_log
SELECT EXISTS (SELECT 1 FROM {schema}.checkpoint
                WHERE stream = :stream AND grp = :grp AND log <> :log AND checkpoint IS NOT NULL);

-- name: insert_units
INSERT INTO {schema}.checkpoint (stream, grp, partition, slot, checkpoint, epoch, log, updated_at)
SELECT :stream, :grp, unit.*, :log, {now}
  FROM unnest(:partition::bigint[], :slot::bigint[], :checkpoint::bigint[], :epoch::bigint[]) AS unit
ON CONFLICT DO NOTHING;

-- name: enter_member
INSERT INTO {schema}.group_member (stream, grp, instance, ordinal, members)
VALUES (:stream, :grp, :instance, :ordinal, :members)
ON CONFLICT (stream, grp, instance) DO UPDATE SET ordinal = excluded.ordinal, members = excluded.members;

-- name: leave_group
DELETE FROM {schema}.group_member WHERE stream = :stream AND grp = :grp AND instance = :instance;

-- name: forget_members
-- All of them; or those who have ended.
DELETE FROM {schema}.group_member
 WHERE stream = :stream AND grp = :grp
   AND (:all::boolean OR NOT EXISTS (SELECT 1 FROM {schema}.instance WHERE id = group_member.instance AND live));

-- name: is_alive
-- Of an instance: it lives, and gave a sign of life lately.
instance.live AND NOT ({is_late})

-- name: list_members
SELECT instance.id, instance.started_at, ordinal, members
  FROM {schema}.group_member JOIN {schema}.instance ON instance.id = group_member.instance AND {is_alive}
 WHERE stream = :stream AND grp = :grp
 ORDER BY instance.id COLLATE "C";

-- name: list_units
SELECT stream, grp, partition, slot, checkpoint, instance.id, checkpoint.epoch, updated_at
  FROM {schema}.checkpoint LEFT JOIN {schema}.instance ON instance.id = checkpoint.holder AND {is_alive}
 WHERE stream = :stream AND grp = :grp
 ORDER BY partition, slot;

-- name: take_units
-- Only what has not changed hands since it was looked at. What somebody is just taking, or writing under, is
-- left for another time: nobody waits here, and who is at work is not displaced in the middle of it.
WITH wanted AS MATERIALIZED (
    SELECT stream, grp, partition, slot
      FROM unnest(:stream::text[], :grp::text[], :partition::bigint[], :slot::bigint[], :epoch::bigint[])
           AS one (stream, grp, partition, slot, epoch)
      JOIN {schema}.checkpoint USING (stream, grp, partition, slot)
     WHERE checkpoint.epoch = one.epoch
     ORDER BY stream, grp, partition, slot FOR UPDATE OF checkpoint SKIP LOCKED)
UPDATE {schema}.checkpoint
   SET holder = :owner, log = :log, epoch = checkpoint.epoch + 1, updated_at = {now}
  FROM wanted
 WHERE checkpoint.stream = wanted.stream AND checkpoint.grp = wanted.grp
   AND checkpoint.partition = wanted.partition AND checkpoint.slot = wanted.slot
RETURNING {holding_columns};

-- name: release_units
WITH held AS MATERIALIZED (
    SELECT stream, grp, partition, slot
      FROM unnest(:stream::text[], :grp::text[], :partition::bigint[], :slot::bigint[], :epoch::bigint[],
                  :owner::text[])
           AS one (stream, grp, partition, slot, epoch, owner)
      JOIN {schema}.checkpoint USING (stream, grp, partition, slot)
     WHERE checkpoint.epoch = one.epoch AND checkpoint.holder = one.owner
     ORDER BY stream, grp, partition, slot FOR UPDATE OF checkpoint)
UPDATE {schema}.checkpoint SET holder = NULL
  FROM held
 WHERE checkpoint.stream = held.stream AND checkpoint.grp = held.grp
   AND checkpoint.partition = held.partition AND checkpoint.slot = held.slot;

-- name: move_checkpoints
-- The fence of whatever a holder writes: only what is its own, under the epoch named, and while it lives.
-- The instance first, then the units in their order, as everybody does; all of it is locked until the
-- commit. Declaring the instance dead, or taking a unit, has to wait for that, and what is written
-- after it finds another epoch.
WITH owner AS MATERIALIZED (
    SELECT id, epoch FROM {schema}.instance
     WHERE live AND id = ANY (:holder::text[]) ORDER BY id FOR KEY SHARE),
held AS MATERIALIZED (
    SELECT stream, grp, partition, slot, move.reached, checkpoint.checkpoint AS before
      FROM unnest(:stream::text[], :grp::text[], :partition::bigint[], :slot::bigint[], :epoch::bigint[],
                  :holder::text[], :holder_epoch::bigint[], :reached::bigint[])
           AS move (stream, grp, partition, slot, epoch, holder, holder_epoch, reached)
      JOIN owner ON owner.id = move.holder AND owner.epoch = move.holder_epoch
      JOIN {schema}.checkpoint USING (stream, grp, partition, slot)
     WHERE checkpoint.epoch = move.epoch AND checkpoint.holder = move.holder
     ORDER BY stream, grp, partition, slot FOR UPDATE OF checkpoint)
UPDATE {schema}.checkpoint
   SET checkpoint = greatest(checkpoint.checkpoint, held.reached),
       updated_at = CASE WHEN held.reached > coalesce(checkpoint.checkpoint, -1) THEN {now}
                         ELSE checkpoint.updated_at END
  FROM held
 WHERE checkpoint.stream = held.stream AND checkpoint.grp = held.grp
   AND checkpoint.partition = held.partition AND checkpoint.slot = held.slot
RETURNING checkpoint.stream, checkpoint.grp, checkpoint.partition, checkpoint.slot, held.before;

-- name: list_standings
-- As many as there are units of groups. Who has ended reads no more, whatever the row still says.
SELECT stream, grp, partition, slot, checkpoint, instance.id, checkpoint.epoch, updated_at
  FROM {schema}.checkpoint LEFT JOIN {schema}.instance ON instance.id = checkpoint.holder AND instance.live
 WHERE stream = :stream
 ORDER BY grp COLLATE "C", partition, slot;

-- name: partitions_of
-- Locked until the commit: nobody takes one of them meanwhile, or writes under it.
SELECT partition FROM {schema}.checkpoint
 WHERE stream = :stream AND grp = :grp ORDER BY partition, slot FOR UPDATE;

-- name: readers_of
-- Those who are members; and those who have left, and hold something until they have finished with it.
SELECT id FROM {schema}.instance
 WHERE live
   AND (EXISTS (SELECT 1 FROM {schema}.group_member
                 WHERE stream = :stream AND grp = :grp AND group_member.instance = instance.id)
        OR id IN (SELECT holder FROM {schema}.checkpoint WHERE stream = :stream AND grp = :grp))
 ORDER BY id COLLATE "C";

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
