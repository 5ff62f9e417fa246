-- Queues, topics, and the messages in them.

CREATE TABLE queue (
    -- A small number inside, a readable name outside: the messages repeat only the number.
    key                 INTEGER PRIMARY KEY,
    name                TEXT    NOT NULL UNIQUE,
    lock_time           INTEGER NOT NULL CHECK (lock_time > 0),
    max_deliveries      INTEGER NOT NULL CHECK (max_deliveries > 0),
    dedup               INTEGER NOT NULL CHECK (dedup >= 0),
    ttl                 INTEGER CHECK (ttl > 0),
    dead_letter_expired INTEGER NOT NULL,
    sessions            INTEGER NOT NULL,
    created_at          INTEGER NOT NULL
) STRICT;

CREATE TABLE topic (
    name       TEXT    PRIMARY KEY,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE subscription (
    topic     TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    queue_key INTEGER NOT NULL,
    -- An object: each of its properties must be there, with just that value.
    filter    TEXT    NOT NULL,
    PRIMARY KEY (topic, name)
) STRICT, WITHOUT ROWID;

-- What is completed leaves; what is dead stays, outside of the indexes by which messages are received.
CREATE TABLE message (
    -- Never given twice: tokens are made of it.
    sequence       INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_key      INTEGER NOT NULL,
    id             TEXT    NOT NULL,
    properties     TEXT    NOT NULL,
    session        TEXT,
    priority       INTEGER NOT NULL,
    state          TEXT    NOT NULL,
    -- The order of receiving: when it was sent, and earlier the more urgent it is.
    rank           INTEGER NOT NULL,
    enqueued_at    INTEGER NOT NULL,
    -- When its lock runs out, or it is no longer to wait.
    visible_at     INTEGER,
    expires_at     INTEGER,
    lock_secret    TEXT,
    delivery_count INTEGER NOT NULL DEFAULT 0,
    reason         TEXT,
    detail         TEXT,
    dead_at        INTEGER,
    -- Last: whoever looks for something else need not read over it.
    body           BLOB    NOT NULL,

    CHECK (CASE state
        WHEN 'ready'   THEN visible_at IS NULL AND lock_secret IS NULL
        WHEN 'locked'  THEN visible_at IS NOT NULL AND lock_secret IS NOT NULL AND delivery_count > 0
        WHEN 'behind'  THEN visible_at IS NULL AND lock_secret IS NULL AND session IS NOT NULL
        WHEN 'waiting' THEN visible_at IS NOT NULL AND lock_secret IS NULL
        WHEN 'dead'    THEN visible_at IS NULL AND lock_secret IS NULL AND expires_at IS NULL
                            AND reason IS NOT NULL AND dead_at IS NOT NULL
        ELSE 0 END)
) STRICT;

CREATE INDEX message_ready ON message (queue_key, rank, sequence) WHERE state = 'ready';
CREATE INDEX message_locked ON message (queue_key, visible_at) WHERE state = 'locked';
CREATE INDEX message_waiting ON message (queue_key, visible_at) WHERE state = 'waiting';
CREATE INDEX message_expires ON message (queue_key, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX message_session ON message (queue_key, session, state, sequence)
    WHERE session IS NOT NULL AND state <> 'dead';
CREATE INDEX message_dead ON message (queue_key, sequence) WHERE state = 'dead';

-- The ids that senders chose, for as long as one that comes again is the same message.
CREATE TABLE message_id (
    queue_key INTEGER NOT NULL,
    id        TEXT    NOT NULL,
    sequence  INTEGER NOT NULL,
    until     INTEGER NOT NULL,
    PRIMARY KEY (queue_key, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX message_id_until ON message_id (until);
