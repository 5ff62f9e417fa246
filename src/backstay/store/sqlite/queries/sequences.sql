-- What SQLite alone needs for messages: it admits one writer, who may count by himself.

-- name: last_sequence
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'message'), 0);

-- name: remember_ids
INSERT INTO message_id (queue_key, id, sequence, until) VALUES {rows}
ON CONFLICT (queue_key, id) DO UPDATE SET sequence = excluded.sequence, until = excluded.until;
