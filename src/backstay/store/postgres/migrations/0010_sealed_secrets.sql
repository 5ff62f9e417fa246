-- Secrets of jobs, sealed. Those that earlier releases kept as they are move here, sealed, in the same transaction
-- (store/postgres/sealing.py); job_secret stays, empty, for a release that still looks there, and nobody else reads it.
CREATE TABLE {schema}.job_sealed_secret (
    job_key bigint NOT NULL,
    -- The place in the definition that it belongs to.
    place   text   NOT NULL,
    sealed  text   NOT NULL,
    PRIMARY KEY (job_key, place)
);
