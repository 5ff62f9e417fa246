-- name: find_ids
-- In every slot of their streams; there are a handful.
SELECT json_group_array(json_array(
       id_slot.stream_key, known_id.id, known_id.appended_at, known_id.digest, known_id.place))
  FROM json_each(:wanted) AS wanted CROSS JOIN id_slot CROSS JOIN known_id
 WHERE id_slot.stream_key = wanted.value ->> 0
   AND known_id.slot_key = id_slot.key AND known_id.id = wanted.value ->> 1;

-- name: insert_slot
INSERT INTO id_slot (stream_key, until) VALUES (:stream, :until) RETURNING key;

-- name: insert_ids
-- One that is known and no longer counts makes room for the new one.
INSERT OR REPLACE INTO known_id (slot_key, id, appended_at, digest, place) VALUES {rows};

-- name: past_slot
-- The oldest slot in which nothing counts any more.
SELECT key FROM id_slot WHERE stream_key = :stream AND until <= :before ORDER BY until LIMIT 1;

-- name: forget_ids
DELETE FROM known_id
 WHERE slot_key = :slot
   AND id IN (SELECT id FROM known_id WHERE slot_key = :slot ORDER BY id LIMIT :limit);

-- name: forget_slot
DELETE FROM id_slot WHERE key = :slot AND NOT EXISTS (SELECT 1 FROM known_id WHERE slot_key = :slot);
