-- Job collections, their jobs, and what became of their occurrences. Names are found by their folded form, which
-- is the same for all spellings; they are shown as they were first written.

CREATE TABLE {schema}.job_collection (
    key                   bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription          text             NOT NULL,
    resource_group        text             NOT NULL,
    name                  text             NOT NULL,
    subscription_folded   text COLLATE "C" NOT NULL,
    resource_group_folded text COLLATE "C" NOT NULL,
    name_folded           text COLLATE "C" NOT NULL,
    location              text             NOT NULL,
    tags                  text,
    sku                   text             NOT NULL
                          CHECK (sku IN ('Standard', 'Free', 'P10Premium', 'P20Premium', 'Premium')),
    state                 text             NOT NULL CHECK (state IN ('Enabled', 'Disabled', 'Suspended')),
    quota                 text,
    UNIQUE (subscription_folded, resource_group_folded, name_folded)
);

CREATE INDEX job_collection_sku ON {schema}.job_collection (subscription_folded, sku);
-- Whoever decides: a subscription has no second one.
CREATE UNIQUE INDEX job_collection_free ON {schema}.job_collection (subscription_folded) WHERE sku = 'Free';

CREATE TABLE {schema}.job (
    -- Never given twice: what is still said of a job that is gone must not meet another.
    key               bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    collection_key    bigint           NOT NULL,
    name              text             NOT NULL,
    name_folded       text COLLATE "C" NOT NULL,
    uid               text             NOT NULL,
    generation        bigint           NOT NULL CHECK (generation > 0),
    state             text             NOT NULL CHECK (state IN ('enabled', 'disabled', 'completed', 'faulted')),
    catch_up          text             NOT NULL CHECK (catch_up IN ('skip', 'one', 'all')),
    overlap           text             NOT NULL CHECK (overlap IN ('skip', 'queue', 'allow')),
    created_at        timestamptz      NOT NULL,
    updated_at        timestamptz      NOT NULL,
    next_at           timestamptz,
    -- When it is due: at its next instant, or when that is to be looked at again. NULL unless the job and its
    -- collection are enabled, so that the index below holds nothing else.
    armed_at          timestamptz,
    fired_at          timestamptz,
    occurrences       bigint           NOT NULL CHECK (occurrences >= 0),
    last_execution_at timestamptz,
    executions        bigint           NOT NULL CHECK (executions >= 0),
    failures          bigint           NOT NULL CHECK (failures >= 0),
    faults            bigint           NOT NULL CHECK (faults >= 0),
    -- Of the latest occurrence that came to its end: its instant, and whether it failed.
    outcome_at        timestamptz,
    outcome_failed    boolean,
    -- When the job itself did.
    ended_at          timestamptz,
    -- How many entries its history has: to be cut, it need not be counted.
    entries           bigint           NOT NULL DEFAULT 0 CHECK (entries >= 0),
    definition        text             NOT NULL,
    UNIQUE (collection_key, name_folded),
    CHECK (armed_at IS NULL OR (state = 'enabled' AND next_at IS NOT NULL)),
    CHECK ((outcome_at IS NULL) = (outcome_failed IS NULL)),
    CHECK ((ended_at IS NULL) = (state IN ('enabled', 'disabled')))
-- What is recorded of an occurrence changes no index: there is room for the next version of a row beside it.
) WITH (fillfactor = 70);

CREATE INDEX job_armed ON {schema}.job (armed_at, key) WHERE armed_at IS NOT NULL;
CREATE INDEX job_ended ON {schema}.job (ended_at, key) WHERE ended_at IS NOT NULL;

-- Nothing else holds a secret, and whoever reads jobs reads none of it.
CREATE TABLE {schema}.job_secret (
    job_key bigint NOT NULL,
    -- The place in the definition that it belongs to.
    place   text   NOT NULL,
    secret  text   NOT NULL,
    PRIMARY KEY (job_key, place)
);

-- The tasks of a job's occurrences that may still be at work. Those that have settled leave with the next firing,
-- so that there are never many; what a person resubmits later than that is no longer taken for one of them.
CREATE TABLE {schema}.job_task (
    job_key bigint NOT NULL,
    task_id text   NOT NULL,
    PRIMARY KEY (job_key, task_id)
);

CREATE TABLE {schema}.job_history (
    number      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_key     bigint      NOT NULL,
    -- What makes an attempt the one that it is. A gap is entered with the firing that leaves it: its instant is
    -- NULL, and it meets no other.
    generation  bigint      NOT NULL,
    at          timestamptz,
    by_hand     boolean     NOT NULL,
    action      text        NOT NULL CHECK (action IN ('MainAction', 'ErrorAction')),
    retry       bigint      NOT NULL CHECK (retry >= 0),
    status      text        NOT NULL CHECK (status IN ('completed', 'failed', 'postponed')),
    expected_at timestamptz NOT NULL,
    started_at  timestamptz NOT NULL,
    ended_at    timestamptz NOT NULL,
    repeat      bigint      NOT NULL,
    instants    bigint      NOT NULL CHECK (instants > 0),
    message     text        NOT NULL,
    UNIQUE (job_key, generation, at, by_hand, action, retry)
);

CREATE INDEX job_history_newest ON {schema}.job_history (job_key, started_at, number);
CREATE INDEX job_history_oldest ON {schema}.job_history (started_at, number);

-- Jobs that were deleted and left a history, which goes little by little: a collection may have a million entries.
CREATE TABLE {schema}.job_gone (
    job_key bigint PRIMARY KEY
);
