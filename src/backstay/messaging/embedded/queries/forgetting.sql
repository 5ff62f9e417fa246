-- name: first_events
-- Of each partition up to so many of its first events: no offset is left out, so that many offsets are as
-- many events.
SELECT json_group_array(json_array(partition.key, number, event.place, event.enqueued_at, {event_bytes}))
  FROM partition CROSS JOIN event
 WHERE stream_key = :stream
   AND event.place >= (partition.key << 40) + first_offset
   AND event.place < (partition.key << 40) + min(end_offset, first_offset + :each);

-- name: stream_size
SELECT sum(bytes) FROM partition WHERE stream_key = :stream;

-- name: delete_events
DELETE FROM event WHERE place IN (SELECT value FROM json_each(:places));

-- name: move_firsts
UPDATE partition SET first_offset = moved.value ->> 1, bytes = bytes - (moved.value ->> 2)
  FROM json_each(:moved) AS moved WHERE partition.key = moved.value ->> 0;
