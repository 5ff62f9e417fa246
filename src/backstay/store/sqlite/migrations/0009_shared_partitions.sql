-- Several readers of a group may share a partition, each with a checkpoint of its own; and those who read for a
-- group know of one another. A primary key cannot be changed in place: the table is made anew.

CREATE TABLE checkpoint_by_slot (
    stream     TEXT    NOT NULL,
    grp        TEXT    NOT NULL,
    partition  INTEGER NOT NULL CHECK (partition >= 0),
    -- Which of those that share the partition this is; as many as the group has readers for each.
    slot       INTEGER NOT NULL DEFAULT 0 CHECK (slot >= 0),
    -- The next offset to read; NULL while nothing was ever read.
    checkpoint INTEGER CHECK (checkpoint >= 0),
    -- Which log that is an offset of.
    log        TEXT    NOT NULL,
    -- The instance that reads it. It counts for as long as that instance lives.
    holder     TEXT,
    -- Moves on with every change of hands: what an earlier holder still writes is refused.
    epoch      INTEGER NOT NULL CHECK (epoch >= 0),
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (stream, grp, partition, slot),
    CHECK (holder IS NULL OR epoch > 0)
) STRICT, WITHOUT ROWID;

INSERT INTO checkpoint_by_slot (stream, grp, partition, checkpoint, log, holder, epoch, updated_at)
SELECT stream, grp, partition, checkpoint, log, holder, epoch, updated_at FROM checkpoint;

DROP TABLE checkpoint;
ALTER TABLE checkpoint_by_slot RENAME TO checkpoint;

CREATE TRIGGER checkpoint_goes_forward BEFORE UPDATE ON checkpoint
WHEN OLD.checkpoint IS NOT NULL AND (NEW.checkpoint IS NULL OR NEW.checkpoint < OLD.checkpoint)
  OR NEW.epoch < OLD.epoch
BEGIN
    SELECT RAISE(ABORT, 'a checkpoint never moves back');
END;

-- Who reads for a group, whether it holds anything or not. It counts for as long as that instance lives.
CREATE TABLE group_member (
    stream   TEXT NOT NULL,
    grp      TEXT NOT NULL,
    instance TEXT NOT NULL,
    -- A fixed share: which one it is of how many. NULL: it shares evenly with others.
    ordinal  INTEGER,
    members  INTEGER,
    PRIMARY KEY (stream, grp, instance),
    CHECK ((ordinal IS NULL) = (members IS NULL)),
    CHECK (ordinal >= 0 AND ordinal < members)
) STRICT, WITHOUT ROWID;
