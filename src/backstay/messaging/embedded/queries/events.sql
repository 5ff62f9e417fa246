-- Many rows with few calls: after each statement, and each row that the driver fetches, a thread has to get
-- the interpreter lock back from a busy event loop. So a list comes out as one text of JSON.

-- name: event_bytes
-- What an event counts for. Python says the same in rows.py.
length(event.body) + ifnull(length(event.key), 0) + ifnull(length(event.id), 0)
 + ifnull(length(event.headers), 0) + 32

-- name: states
-- What an append has to know of the streams that it goes to. The write lock keeps it current.
SELECT json_group_array(json_array(
       stream.key, stream.name, stream.bytes_max, stream.dedup,
       json((SELECT json_group_array(json_array(partition.key, number, end_offset, bytes))
               FROM partition WHERE stream_key = stream.key)),
       json((SELECT json_group_array(json_array(id_slot.key, until))
               FROM id_slot WHERE stream_key = stream.key))))
  FROM stream WHERE name IN (SELECT value FROM json_each(:names));

-- name: insert_events
INSERT INTO event (place, enqueued_at, key, id, headers, body) VALUES {rows};

-- name: move_ends
UPDATE partition SET end_offset = moved.value ->> 1, bytes = moved.value ->> 2
  FROM json_each(:moved) AS moved WHERE partition.key = moved.value ->> 0;

-- name: read_events
-- Of each range what is in it. The inner query looks at lengths only, for which no body is read: what is too
-- much is left alone. The first comes whatever its size.
SELECT json_group_array(json_array(
       wanted.key, place, enqueued_at, event.key, event.id, json(headers), length(body))),
       CAST(group_concat(body, '') AS BLOB)
  FROM json_each(:wanted) AS wanted CROSS JOIN event
 WHERE place >= wanted.value ->> 0 AND place <= (
       SELECT coalesce(max(place) FILTER (WHERE total <= wanted.value ->> 2), min(place))
         FROM (SELECT place, sum(length(body)) OVER (ORDER BY place) AS total
                 FROM event WHERE place >= wanted.value ->> 0 AND place < wanted.value ->> 1));

-- name: oldest_events
-- Of each partition that is asked for the first event from an offset on.
SELECT partition.number, event.place, event.enqueued_at, event.key, event.id, json(event.headers), event.body
  FROM json_each(:starts) AS wanted
 CROSS JOIN stream CROSS JOIN partition CROSS JOIN event
 WHERE stream.name = :stream AND partition.stream_key = stream.key AND partition.number = wanted.value ->> 0
   AND event.place = (SELECT min(place) FROM event AS later
                       WHERE later.place >= (partition.key << 40) + max(first_offset, wanted.value ->> 1)
                         AND later.place < (partition.key << 40) + end_offset);
