-- A batch as one statement: the interpreter lock is given up once, whatever the batch holds.

-- name: batch_view
-- A batch as a row: what it goes by, and what is to be written, each as one text of JSON, but for the bodies
-- of events: those are one piece, of which each event says where in it its own begins, and how long it is.
CREATE TEMP VIEW batch AS SELECT NULL AS seen, NULL AS moved, NULL AS events, NULL AS bodies, NULL AS ids;

-- name: batch_trigger
CREATE TEMP TRIGGER write_batch INSTEAD OF INSERT ON batch
BEGIN
    {check_seen};
    {put_events};
    {put_ends};
    {put_ids};
END;

-- name: write_batch
INSERT INTO batch VALUES (:seen, :moved, :events, :bodies, :ids);

-- name: check_seen
-- Whether streams have the terms, the size and the ends that the batch goes by.
SELECT RAISE(ABORT, 'another process has written to the stream')
 WHERE EXISTS (SELECT 1 FROM json_each(NEW.seen) AS seen
                WHERE NOT EXISTS (SELECT 1 FROM stream JOIN partition ON stream_key = stream.key
                                   WHERE stream.key = seen.value ->> 0 AND stream.bytes_max = seen.value ->> 1
                                     AND stream.dedup = seen.value ->> 2
                                   GROUP BY stream.key
                                  HAVING sum(bytes) = seen.value ->> 3 AND sum(end_offset) = seen.value ->> 4));

-- name: put_events
INSERT INTO event (place, enqueued_at, key, id, headers, body)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
       substr(NEW.bodies, value ->> 5, value ->> 6)
  FROM json_each(NEW.events);

-- name: put_ends
UPDATE partition SET end_offset = moved.value ->> 1, bytes = moved.value ->> 2
  FROM json_each(NEW.moved) AS moved WHERE partition.key = moved.value ->> 0;

-- name: put_ids
-- One that is known and no longer counts makes room for the new one.
INSERT OR REPLACE INTO known_id (slot_key, id, appended_at, digest, place)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(NEW.ids);
