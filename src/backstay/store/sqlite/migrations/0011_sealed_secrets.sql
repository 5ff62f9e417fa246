-- Secrets of jobs, sealed. Those that earlier releases kept as they are move here, sealed, in the same transaction
-- (store/sqlite/sealing.py); job_secret stays, empty, for a release that still looks there, and nobody else reads it.
CREATE TABLE job_sealed_secret (
    job_key INTEGER NOT NULL,
    -- The place in the definition that it belongs to.
    place   TEXT    NOT NULL,
    sealed  TEXT    NOT NULL,
    PRIMARY KEY (job_key, place)
) STRICT, WITHOUT ROWID;
