-- name: heads
-- Of each partition with events its first one, and how much there is.
SELECT json_group_array(json_array(
       partition.number, partition.key, first_offset, end_offset, bytes,
       (SELECT enqueued_at FROM event WHERE place = (partition.key << 40) + first_offset)))
  FROM partition WHERE stream_key = :stream AND first_offset < end_offset;

-- name: first_events
SELECT json_group_array(json_array(place, enqueued_at, bytes))
  FROM (SELECT place, enqueued_at, {event_bytes} AS bytes FROM event
         WHERE place >= :start AND place < :stop ORDER BY place LIMIT :limit);

-- name: delete_events
DELETE FROM event WHERE place >= :start AND place < :stop;

-- name: move_first
UPDATE partition SET first_offset = :first, bytes = bytes - :bytes WHERE key = :key;
