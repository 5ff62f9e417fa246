-- How far groups have got in the streams that they read, and the events that they set aside. Whatever log a
-- stream is in, this is here: with the tasks that events become.

CREATE TABLE checkpoint (
    stream     TEXT    NOT NULL,
    grp        TEXT    NOT NULL,
    partition  INTEGER NOT NULL CHECK (partition >= 0),
    -- The next offset to read; NULL while nothing was ever read.
    checkpoint INTEGER CHECK (checkpoint >= 0),
    -- Which log that is an offset of.
    log        TEXT    NOT NULL,
    -- The instance that reads it. It counts for as long as that instance lives.
    holder     TEXT,
    -- Moves on with every change of hands: what an earlier holder still writes is refused.
    epoch      INTEGER NOT NULL CHECK (epoch >= 0),
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (stream, grp, partition),
    CHECK (holder IS NULL OR epoch > 0)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER checkpoint_goes_forward BEFORE UPDATE ON checkpoint
WHEN OLD.checkpoint IS NOT NULL AND (NEW.checkpoint IS NULL OR NEW.checkpoint < OLD.checkpoint)
  OR NEW.epoch < OLD.epoch
BEGIN
    SELECT RAISE(ABORT, 'a checkpoint never moves back');
END;

CREATE TABLE quarantine (
    -- Never given twice: people name an event by it.
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    stream      TEXT    NOT NULL,
    grp         TEXT    NOT NULL,
    partition   INTEGER NOT NULL CHECK (partition >= 0),
    "offset"    INTEGER NOT NULL CHECK ("offset" >= 0),
    key         TEXT,
    event_id    TEXT,
    headers     TEXT,
    enqueued_at INTEGER NOT NULL,
    reason      TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    -- A person asked for it to be processed again.
    resubmitted INTEGER NOT NULL DEFAULT 0 CHECK (resubmitted IN (0, 1)),
    -- Last: whoever looks for something else need not read over it.
    body        BLOB    NOT NULL,
    UNIQUE (stream, grp, partition, "offset")
) STRICT;

CREATE INDEX quarantine_stream ON quarantine (stream, id);
CREATE INDEX quarantine_group ON quarantine (stream, grp, id);
CREATE INDEX quarantine_resubmitted ON quarantine (stream, grp, id) WHERE resubmitted = 1;
