-- Several readers of a group may share a partition, each with a checkpoint of its own; and those who read for a
-- group know of one another.

ALTER TABLE {schema}.checkpoint
    -- Which of those that share the partition this is; as many as the group has readers for each.
    ADD COLUMN slot bigint NOT NULL DEFAULT 0 CHECK (slot >= 0),
    DROP CONSTRAINT checkpoint_pkey,
    ADD PRIMARY KEY (stream, grp, partition, slot);

-- Who reads for a group, whether it holds anything or not. It counts for as long as that instance lives.
CREATE TABLE {schema}.group_member (
    stream   text   NOT NULL,
    grp      text   NOT NULL,
    instance text   NOT NULL,
    -- A fixed share: which one it is of how many. NULL: it shares evenly with others.
    ordinal  bigint,
    members  bigint,
    PRIMARY KEY (stream, grp, instance),
    CHECK ((ordinal IS NULL) = (members IS NULL)),
    CHECK (ordinal >= 0 AND ordinal < members)
);
