-- Queues, topics, and the messages in them.

CREATE TABLE {schema}.queue (
    -- A small number inside, a readable name outside: the messages repeat only the number.
    key                 bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name                text        NOT NULL UNIQUE,
    lock_time           interval    NOT NULL CHECK (lock_time > interval '0'),
    max_deliveries      bigint      NOT NULL CHECK (max_deliveries > 0),
    dedup               interval    NOT NULL CHECK (dedup >= interval '0'),
    ttl                 interval    CHECK (ttl > interval '0'),
    dead_letter_expired boolean     NOT NULL,
    sessions            boolean     NOT NULL,
    created_at          timestamptz NOT NULL
);

CREATE TABLE {schema}.topic (
    name       text        PRIMARY KEY,
    created_at timestamptz NOT NULL
);

CREATE TABLE {schema}.subscription (
    topic     text   NOT NULL,
    name      text   NOT NULL,
    queue_key bigint NOT NULL,
    -- An object: each of its properties must be there, with just that value.
    filter    text   NOT NULL,
    PRIMARY KEY (topic, name)
);

-- Its numbers are never given twice: tokens are made of them.
CREATE SEQUENCE {schema}.message_sequence;

-- What is completed leaves; what is dead stays, outside of the indexes by which messages are received.
CREATE TABLE {schema}.message (
    sequence       bigint      PRIMARY KEY DEFAULT nextval('{schema}.message_sequence'),
    queue_key      bigint      NOT NULL,
    id             text        NOT NULL,
    properties     text        NOT NULL,
    session        text,
    priority       bigint      NOT NULL,
    state          text        NOT NULL,
    -- The order of receiving: when it was sent, and earlier the more urgent it is.
    rank           timestamptz NOT NULL,
    enqueued_at    timestamptz NOT NULL,
    -- When its lock runs out, or it is no longer to wait.
    visible_at     timestamptz,
    expires_at     timestamptz,
    lock_secret    text,
    delivery_count bigint      NOT NULL DEFAULT 0,
    reason         text,
    detail         text,
    dead_at        timestamptz,
    body           bytea       NOT NULL,

    CHECK (CASE state
        WHEN 'ready'   THEN visible_at IS NULL AND lock_secret IS NULL
        WHEN 'locked'  THEN visible_at IS NOT NULL AND lock_secret IS NOT NULL AND delivery_count > 0
        WHEN 'behind'  THEN visible_at IS NULL AND lock_secret IS NULL AND session IS NOT NULL
        WHEN 'waiting' THEN visible_at IS NOT NULL AND lock_secret IS NULL
        WHEN 'dead'    THEN visible_at IS NULL AND lock_secret IS NULL AND expires_at IS NULL
                            AND reason IS NOT NULL AND dead_at IS NOT NULL
        ELSE false END)
-- Every message leaves a dead row or two behind: they are cleared away long before a fifth of all is dead.
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE INDEX message_ready ON {schema}.message (queue_key, rank, sequence) WHERE state = 'ready';
CREATE INDEX message_locked ON {schema}.message (queue_key, visible_at) WHERE state = 'locked';
CREATE INDEX message_waiting ON {schema}.message (queue_key, visible_at) WHERE state = 'waiting';
CREATE INDEX message_expires ON {schema}.message (queue_key, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX message_session ON {schema}.message (queue_key, session, state, sequence)
    WHERE session IS NOT NULL AND state <> 'dead';
CREATE INDEX message_dead ON {schema}.message (queue_key, sequence) WHERE state = 'dead';

-- The ids that senders chose, for as long as one that comes again is the same message.
CREATE TABLE {schema}.message_id (
    queue_key bigint      NOT NULL,
    id        text        NOT NULL,
    sequence  bigint      NOT NULL,
    until     timestamptz NOT NULL,
    PRIMARY KEY (queue_key, id)
);

CREATE INDEX message_id_until ON {schema}.message_id (until);
