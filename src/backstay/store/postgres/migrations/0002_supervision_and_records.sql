-- What the supervisor needs beside the tasks, and what is kept for operators.

ALTER TABLE {schema}.instance
    ADD COLUMN roles  jsonb NOT NULL DEFAULT '[]',
    -- How the instance stood at its last sign of life.
    ADD COLUMN report jsonb NOT NULL DEFAULT '{}';

-- Runs that have an end set for them, and are in somebody's hands.
CREATE INDEX task_hard_end ON {schema}.task (hard_end) WHERE state = 'processing' AND hard_end IS NOT NULL;

-- Who leads. The row is always there: whoever wants to lead changes it, and only one can.
CREATE TABLE {schema}.leader (
    name   text        PRIMARY KEY CHECK (name = 'supervisor'),
    holder text,
    -- Moves on with every change of leader: what an earlier one still tries to write is refused.
    epoch  bigint      NOT NULL,
    until  timestamptz,
    CHECK ((holder IS NULL) = (until IS NULL))
);

INSERT INTO {schema}.leader (name, epoch) VALUES ('supervisor', 0);

CREATE TABLE {schema}.supervisor_round (
    id            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at            timestamptz NOT NULL,
    epoch         bigint      NOT NULL,
    freed         bigint      NOT NULL,
    overrun       bigint      NOT NULL,
    steps_expired bigint      NOT NULL,
    undos         bigint      NOT NULL,
    woken         bigint      NOT NULL,
    paused        bigint      NOT NULL
);

-- How often what had to be recovered, added up per sweep; kept for a day.
CREATE TABLE {schema}.recovery (
    id       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL,
    workflow text        NOT NULL,
    -- Of a step that expired; NULL: of a task as a whole.
    agent    text,
    number   bigint      NOT NULL CHECK (number > 0)
);

CREATE INDEX recovery_at ON {schema}.recovery (at);

-- What is held back. Whatever has no row here is not.
CREATE TABLE {schema}.control (
    subject text        NOT NULL CHECK (subject IN ('workflow', 'agent')),
    name    text        NOT NULL,
    paused  boolean     NOT NULL,
    breaker text        CHECK (breaker IN ('open', 'closed')),
    "by"    text        NOT NULL,
    reason  text,
    at      timestamptz NOT NULL,
    PRIMARY KEY (subject, name),
    CHECK (paused OR breaker IS NOT NULL),
    CHECK (breaker IS NULL OR subject = 'agent')
);

CREATE TABLE {schema}.alert (
    id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind            text        NOT NULL CHECK (kind IN (
                        'task_error', 'undo_failed', 'undo_manual', 'workflow_paused', 'agent_paused')),
    target          text        NOT NULL,
    task_id         text,
    step            text,
    message         text        NOT NULL,
    at              timestamptz NOT NULL,
    acknowledged_by text,
    acknowledged_at timestamptz,
    CHECK ((acknowledged_by IS NULL) = (acknowledged_at IS NULL))
);

CREATE INDEX alert_open ON {schema}.alert (id) WHERE acknowledged_at IS NULL;
CREATE INDEX alert_open_of ON {schema}.alert (target) WHERE acknowledged_at IS NULL;

CREATE TABLE {schema}.audit (
    id       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL,
    who      text        NOT NULL,
    action   text        NOT NULL,
    target   text        NOT NULL,
    reason   text,
    "before" jsonb,
    "after"  jsonb
);

CREATE INDEX audit_target ON {schema}.audit (target, id);

CREATE FUNCTION {schema}.append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE integrity_constraint_violation USING MESSAGE = 'the audit trail is append-only';
END $$;

-- What was done stays written, whoever would like it otherwise.
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE OR DELETE ON {schema}.audit
FOR EACH ROW EXECUTE FUNCTION {schema}.append_only();
CREATE TRIGGER audit_is_never_emptied BEFORE TRUNCATE ON {schema}.audit
FOR EACH STATEMENT EXECUTE FUNCTION {schema}.append_only();

-- Of a token only the digest of its secret. A revoked one keeps its name: it stands in the trail.
CREATE TABLE {schema}.token (
    name       text        PRIMARY KEY,
    role       text        NOT NULL CHECK (role IN ('read', 'submit', 'operate', 'admin')),
    digest     text        NOT NULL,
    created_at timestamptz NOT NULL,
    revoked_at timestamptz
);

CREATE TABLE {schema}.idempotency_key (
    key        text        PRIMARY KEY,
    digest     text        NOT NULL,
    task_id    text        NOT NULL,
    created_at timestamptz NOT NULL
);

CREATE INDEX idempotency_key_created_at ON {schema}.idempotency_key (created_at);
