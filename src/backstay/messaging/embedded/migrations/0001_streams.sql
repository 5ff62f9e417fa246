-- Streams of one host, in a file of their own. Instants and lengths of time are whole microseconds.

CREATE TABLE stream (
    key        INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 200),
    partitions INTEGER NOT NULL CHECK (partitions BETWEEN 1 AND 1024),
    retention  INTEGER NOT NULL CHECK (retention > 0),
    bytes_max  INTEGER NOT NULL CHECK (bytes_max > 0),
    dedup      INTEGER NOT NULL CHECK (dedup >= 0),
    created_at INTEGER NOT NULL,
    -- Made with it by chance: no other stream has it, also none of the same name in another file.
    identity   TEXT    NOT NULL CHECK (length(identity) > 0)
) STRICT;

-- What there is of a partition: offsets from the first up to, and without, the end. Kept in step by whoever
-- appends or forgets, so that neither a count nor a sum ever walks through events.
CREATE TABLE partition (
    key          INTEGER PRIMARY KEY,
    stream_key   INTEGER NOT NULL REFERENCES stream (key),
    number       INTEGER NOT NULL CHECK (number >= 0),
    first_offset INTEGER NOT NULL DEFAULT 0,
    end_offset   INTEGER NOT NULL DEFAULT 0,
    bytes        INTEGER NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    UNIQUE (stream_key, number),
    CHECK (first_offset BETWEEN 0 AND end_offset),
    CHECK (end_offset < 1 << 40)
) STRICT;

-- An offset is never given twice.
CREATE TRIGGER partition_moves_on BEFORE UPDATE ON partition
WHEN NEW.end_offset < OLD.end_offset OR NEW.first_offset < OLD.first_offset
BEGIN
    SELECT RAISE(ABORT, 'a partition only ever moves on');
END;

-- The place of an event is the key of its partition, shifted by 40 bits, plus its offset: events of a
-- partition lie side by side, in their order, and a number is found faster than three columns. A large body
-- stays in few pages, which in a table without a rowid it would not.
CREATE TABLE event (
    place       INTEGER PRIMARY KEY CHECK (place >= 1 << 40),
    enqueued_at INTEGER NOT NULL,
    key         TEXT CHECK (length(key) BETWEEN 1 AND 200),
    id          TEXT CHECK (length(id) BETWEEN 1 AND 200),
    headers     TEXT CHECK (length(headers) <= 8192),
    body        BLOB NOT NULL CHECK (length(body) > 0)
) STRICT;

CREATE TRIGGER event_stays BEFORE UPDATE ON event
BEGIN
    SELECT RAISE(ABORT, 'an event never changes');
END;

-- Ids of events, for as long as they count as known. Those of some time lie together in a slot: new ones
-- are spread over the pages of the newest slot only, and what is forgotten is a slot after the other.
CREATE TABLE id_slot (
    key        INTEGER PRIMARY KEY,
    stream_key INTEGER NOT NULL REFERENCES stream (key),
    -- Every id in it was appended before this.
    until      INTEGER NOT NULL
) STRICT;

CREATE INDEX id_slot_stream ON id_slot (stream_key, until);

CREATE TABLE known_id (
    slot_key    INTEGER NOT NULL REFERENCES id_slot (key),
    id          TEXT    NOT NULL,
    appended_at INTEGER NOT NULL,
    -- Of key and body: the same id with another one is a conflict.
    digest      INTEGER NOT NULL,
    place       INTEGER NOT NULL,
    PRIMARY KEY (slot_key, id)
) STRICT, WITHOUT ROWID;
