-- What SQLite alone needs: it admits one writer, who may count by himself, and it is copied as a file.

-- name: last_sequence
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'message'), 0);

-- name: reached_before
-- How far holders had got before they move on. Who comes in between must wait.
SELECT stream, grp, partition, slot, checkpoint FROM checkpoint
 WHERE (stream, grp, partition, slot)
       IN (SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(:moves));

-- name: remember_ids
INSERT INTO message_id (queue_key, id, sequence, until) VALUES {rows}
ON CONFLICT (queue_key, id) DO UPDATE SET sequence = excluded.sequence, until = excluded.until;

-- name: lowest_checkpoints
-- Up to where each group has got in a partition, whoever shares it; for whoever copies the file.
SELECT stream, log, partition, checkpoint FROM checkpoint;
