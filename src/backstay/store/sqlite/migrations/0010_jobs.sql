-- Job collections, their jobs, and what became of their occurrences. Names are found by their folded form, which
-- is the same for all spellings; they are shown as they were first written.

CREATE TABLE job_collection (
    key                   INTEGER PRIMARY KEY AUTOINCREMENT,
    subscription          TEXT    NOT NULL,
    resource_group        TEXT    NOT NULL,
    name                  TEXT    NOT NULL,
    subscription_folded   TEXT    NOT NULL,
    resource_group_folded TEXT    NOT NULL,
    name_folded           TEXT    NOT NULL,
    location              TEXT    NOT NULL,
    tags                  TEXT,
    sku                   TEXT    NOT NULL
                          CHECK (sku IN ('Standard', 'Free', 'P10Premium', 'P20Premium', 'Premium')),
    state                 TEXT    NOT NULL CHECK (state IN ('Enabled', 'Disabled', 'Suspended')),
    quota                 TEXT,
    UNIQUE (subscription_folded, resource_group_folded, name_folded)
) STRICT;

CREATE INDEX job_collection_sku ON job_collection (subscription_folded, sku);
-- Whoever decides: a subscription has no second one.
CREATE UNIQUE INDEX job_collection_free ON job_collection (subscription_folded) WHERE sku = 'Free';

CREATE TABLE job (
    -- Never given twice: what is still said of a job that is gone must not meet another.
    key               INTEGER PRIMARY KEY AUTOINCREMENT,
    collection_key    INTEGER NOT NULL,
    name              TEXT    NOT NULL,
    name_folded       TEXT    NOT NULL,
    uid               TEXT    NOT NULL,
    generation        INTEGER NOT NULL CHECK (generation > 0),
    state             TEXT    NOT NULL CHECK (state IN ('enabled', 'disabled', 'completed', 'faulted')),
    catch_up          TEXT    NOT NULL CHECK (catch_up IN ('skip', 'one', 'all')),
    overlap           TEXT    NOT NULL CHECK (overlap IN ('skip', 'queue', 'allow')),
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    next_at           INTEGER,
    -- When it is due: at its next instant, or when that is to be looked at again. NULL unless the job and its
    -- collection are enabled, so that the index below holds nothing else.
    armed_at          INTEGER,
    fired_at          INTEGER,
    occurrences       INTEGER NOT NULL CHECK (occurrences >= 0),
    last_execution_at INTEGER,
    executions        INTEGER NOT NULL CHECK (executions >= 0),
    failures          INTEGER NOT NULL CHECK (failures >= 0),
    faults            INTEGER NOT NULL CHECK (faults >= 0),
    -- Of the latest occurrence that came to its end: its instant, and whether it failed.
    outcome_at        INTEGER,
    outcome_failed    INTEGER CHECK (outcome_failed IN (0, 1)),
    -- When the job itself did.
    ended_at          INTEGER,
    -- How many entries its history has: to be cut, it need not be counted.
    entries           INTEGER NOT NULL DEFAULT 0 CHECK (entries >= 0),
    -- Last: whoever looks for something else need not read over it.
    definition        TEXT    NOT NULL,
    UNIQUE (collection_key, name_folded),
    CHECK (armed_at IS NULL OR (state = 'enabled' AND next_at IS NOT NULL)),
    CHECK ((outcome_at IS NULL) = (outcome_failed IS NULL)),
    CHECK ((ended_at IS NULL) = (state IN ('enabled', 'disabled')))
) STRICT;

CREATE INDEX job_armed ON job (armed_at, key) WHERE armed_at IS NOT NULL;
CREATE INDEX job_ended ON job (ended_at, key) WHERE ended_at IS NOT NULL;

-- Nothing else holds a secret, and whoever reads jobs reads none of it.
CREATE TABLE job_secret (
    job_key INTEGER NOT NULL,
    -- The place in the definition that it belongs to.
    place   TEXT    NOT NULL,
    secret  TEXT    NOT NULL,
    PRIMARY KEY (job_key, place)
) STRICT, WITHOUT ROWID;

-- The tasks of a job's occurrences that may still be at work. Those that have settled leave with the next firing,
-- so that there are never many; what a person resubmits later than that is no longer taken for one of them.
CREATE TABLE job_task (
    job_key INTEGER NOT NULL,
    task_id TEXT    NOT NULL,
    PRIMARY KEY (job_key, task_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE job_history (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    job_key     INTEGER NOT NULL,
    -- What makes an attempt the one that it is. A gap is entered with the firing that leaves it: its instant is
    -- NULL, and it meets no other.
    generation  INTEGER NOT NULL,
    at          INTEGER,
    by_hand     INTEGER NOT NULL CHECK (by_hand IN (0, 1)),
    action      TEXT    NOT NULL CHECK (action IN ('MainAction', 'ErrorAction')),
    retry       INTEGER NOT NULL CHECK (retry >= 0),
    status      TEXT    NOT NULL CHECK (status IN ('completed', 'failed', 'postponed')),
    expected_at INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER NOT NULL,
    repeat      INTEGER NOT NULL,
    instants    INTEGER NOT NULL CHECK (instants > 0),
    message     TEXT    NOT NULL,
    UNIQUE (job_key, generation, at, by_hand, action, retry)
) STRICT;

CREATE INDEX job_history_newest ON job_history (job_key, started_at, number);
CREATE INDEX job_history_oldest ON job_history (started_at, number);

-- Jobs that were deleted and left a history, which goes little by little: a collection may have a million entries.
CREATE TABLE job_gone (
    job_key INTEGER PRIMARY KEY
) STRICT;
