-- How far groups have got in the streams that they read, and the events that they set aside. Whatever log a
-- stream is in, this is here: with the tasks that events become.

CREATE TABLE {schema}.checkpoint (
    stream     text        NOT NULL,
    grp        text        NOT NULL,
    partition  bigint      NOT NULL CHECK (partition >= 0),
    -- The next offset to read; NULL while nothing was ever read.
    checkpoint bigint      CHECK (checkpoint >= 0),
    -- Which log that is an offset of.
    log        text        NOT NULL,
    -- The instance that reads it. It counts for as long as that instance lives.
    holder     text,
    -- Moves on with every change of hands: what an earlier holder still writes is refused.
    epoch      bigint      NOT NULL CHECK (epoch >= 0),
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (stream, grp, partition),
    CHECK (holder IS NULL OR epoch > 0)
-- A few rows that are written all the time: room for the next version of each beside it.
) WITH (fillfactor = 50);

CREATE FUNCTION {schema}.checkpoint_goes_forward() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE integrity_constraint_violation USING MESSAGE = 'a checkpoint never moves back';
END $$;

CREATE TRIGGER checkpoint_goes_forward BEFORE UPDATE ON {schema}.checkpoint
FOR EACH ROW WHEN (OLD.checkpoint IS NOT NULL AND (NEW.checkpoint IS NULL OR NEW.checkpoint < OLD.checkpoint)
                   OR NEW.epoch < OLD.epoch)
EXECUTE FUNCTION {schema}.checkpoint_goes_forward();

CREATE TABLE {schema}.quarantine (
    -- Never given twice: people name an event by it.
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream      text        NOT NULL,
    grp         text        NOT NULL,
    partition   bigint      NOT NULL CHECK (partition >= 0),
    "offset"    bigint      NOT NULL CHECK ("offset" >= 0),
    key         text,
    event_id    text,
    headers     text,
    enqueued_at timestamptz NOT NULL,
    reason      text        NOT NULL,
    at          timestamptz NOT NULL,
    -- A person asked for it to be processed again.
    resubmitted boolean     NOT NULL DEFAULT false,
    body        bytea       NOT NULL,
    UNIQUE (stream, grp, partition, "offset")
);

CREATE INDEX quarantine_stream ON {schema}.quarantine (stream, id);
CREATE INDEX quarantine_group ON {schema}.quarantine (stream, grp, id);
CREATE INDEX quarantine_resubmitted ON {schema}.quarantine (stream, grp, id) WHERE resubmitted;
