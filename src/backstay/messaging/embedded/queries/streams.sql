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
SELECT json_group_array(json_array(stream_key, number, first_offset, end_offset, bytes))
  FROM (SELECT * FROM partition
         WHERE stream_key IN (SELECT value FROM json_each(:streams)) ORDER BY stream_key, number);

-- name: insert_stream
INSERT INTO stream (name, partitions, retention, bytes_max, dedup, created_at, identity)
VALUES (:name, :partitions, :retention, :bytes_max, :dedup, :now, lower(hex(randomblob(16))))
RETURNING key;

-- name: insert_partitions
INSERT INTO partition (stream_key, number) VALUES {rows};

-- name: change_terms
UPDATE stream SET retention = :retention, bytes_max = :bytes_max, dedup = :dedup WHERE key = :key;

-- name: find_partitions
-- Of each that is asked for, in that order, where it begins and ends; null where there is none.
SELECT json_group_array(json((
       SELECT json_array(partition.key, first_offset, end_offset)
         FROM stream JOIN partition ON partition.stream_key = stream.key
        WHERE stream.name = wanted.value ->> 0 AND partition.number = wanted.value ->> 1)))
  FROM json_each(:wanted) AS wanted;

-- name: partition_bounds
-- What there is of every partition, for whoever copies the file.
SELECT stream.name, stream.identity, partition.number, partition.first_offset, partition.end_offset
  FROM stream JOIN partition ON partition.stream_key = stream.key;
