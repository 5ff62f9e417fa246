-- name: stream_columns
stream.name, stream.partitions, stream.retention, stream.bytes_max, stream.dedup

-- name: find_stream
SELECT stream.key, {stream_columns} FROM stream WHERE name = :name;

-- name: identity_of
SELECT identity FROM stream WHERE name = :name;

-- name: list_streams
SELECT stream.key, {stream_columns} FROM stream WHERE name > :after ORDER BY name LIMIT :limit;

-- name: list_named_streams
SELECT stream.key, {stream_columns} FROM stream
 WHERE name > :after AND name IN (SELECT value FROM json_each(:names)) ORDER BY name LIMIT :limit;

-- name: list_partitions
SELECT stream_key, number, first_offset, end_offset, bytes FROM partition
 WHERE stream_key IN (SELECT value FROM json_each(:streams)) ORDER BY stream_key, number;

-- name: insert_stream
INSERT INTO stream (name, partitions, retention, bytes_max, dedup, created_at, identity)
VALUES (:name, :partitions, :retention, :bytes_max, :dedup, :now, lower(hex(randomblob(16))))
RETURNING key;

-- name: insert_partitions
INSERT INTO partition (stream_key, number) VALUES {rows};

-- name: change_terms
UPDATE stream SET retention = :retention, bytes_max = :bytes_max, dedup = :dedup WHERE key = :key;

-- name: find_partition
SELECT partition.key, partition.first_offset, partition.end_offset
  FROM stream JOIN partition ON partition.stream_key = stream.key
 WHERE stream.name = :stream AND partition.number = :number;

-- name: partition_bounds
-- What there is of every partition, for whoever copies the file.
SELECT stream.name, stream.identity, partition.number, partition.first_offset, partition.end_offset
  FROM stream JOIN partition ON partition.stream_key = stream.key;
