BEGIN TRANSACTION;
CREATE TABLE agent_request (
    -- The order in which they are taken up.
    number      INTEGER PRIMARY KEY,
    task_key    INTEGER NOT NULL,
    step        TEXT    NOT NULL,
    "undo"      INTEGER NOT NULL CHECK ("undo" = 0 OR "undo" = 1),
    agent       TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    complete_by INTEGER NOT NULL,
    -- The request as JSON, and what the agent replied.
    body        TEXT    NOT NULL,
    reply       TEXT,
    claimed_by  TEXT,
    withdrawn   INTEGER NOT NULL DEFAULT 0 CHECK (withdrawn = 0 OR withdrawn = 1),
    broken_off  TEXT    CHECK (broken_off = 'died' OR broken_off = 'stopped'),
    UNIQUE (task_key, step),
    CHECK (claimed_by IS NOT NULL OR broken_off IS NULL AND withdrawn = 0)
) STRICT;
INSERT INTO "agent_request" VALUES(1,16,'charge:1',0,'far',1,1767618012000000,'{"task_id":"remote","step":"charge:1","agent":"far","operation":"charge","attempt":1,"undo":false,"idempotency_key":"remote/charge:1","input":7,"complete_by":"2030-01-01T00:00:30Z","remaining_seconds":30.0,"traceparent":null,"outcome":null,"result":null}',NULL,NULL,0,NULL);
CREATE TABLE "alert" (
    id              INTEGER PRIMARY KEY,
    kind            TEXT    NOT NULL CHECK (kind IN (
                        'task_error', 'undo_failed', 'undo_manual', 'workflow_paused', 'agent_paused',
                        'submission_conflict', 'dead_letter', 'queue_full', 'quarantine')),
    target          TEXT    NOT NULL,
    task_id         TEXT,
    step            TEXT,
    message         TEXT    NOT NULL,
    at              INTEGER NOT NULL,
    acknowledged_by TEXT,
    acknowledged_at INTEGER,
    CHECK ((acknowledged_by IS NULL) = (acknowledged_at IS NULL))
) STRICT;
INSERT INTO "alert" VALUES(1,'task_error','task:error','error','charge:1','Refused: the bank said no',1767614403000000,'ann',1767621616000000);
INSERT INTO "alert" VALUES(2,'dead_letter','queue:orders',NULL,NULL,'messages of queue orders were set aside, first dead: bad address; `backstay queues dead orders` lists them',1767614412000000,NULL,NULL);
INSERT INTO "alert" VALUES(3,'submission_conflict','queue:orders',NULL,NULL,'which one?',1767614413000000,NULL,NULL);
INSERT INTO "alert" VALUES(4,'submission_conflict','queue:orders',NULL,NULL,'which one?',1767614414000000,NULL,NULL);
INSERT INTO "alert" VALUES(5,'quarantine','group:telemetry/archive',NULL,NULL,'group archive of stream telemetry sets events aside; the first is at offset 1 of partition 1: no',1767614414000000,'ann',1767614414000000);
INSERT INTO "alert" VALUES(6,'agent_paused','agent:slow',NULL,NULL,'too many recoveries',1767621616000000,NULL,NULL);
CREATE TABLE audit (
    id       INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL,
    who      TEXT    NOT NULL,
    action   TEXT    NOT NULL,
    target   TEXT    NOT NULL,
    reason   TEXT,
    "before" TEXT,
    "after"  TEXT
) STRICT;
INSERT INTO "audit" VALUES(1,1767614403000000,'ann','cancel','task:cancelled','ordered twice','{"state":"pending","request":null,"locked_by":null,"failure_count":0,"error":null}','{"state":"cancelled","request":null,"locked_by":null,"failure_count":0,"error":null}');
INSERT INTO "audit" VALUES(2,1767614411000000,'ann','cancel','task:asked',NULL,'{"state":"processing","request":null,"locked_by":"alice","failure_count":0,"error":null}','{"state":"processing","request":"cancel","locked_by":"alice","failure_count":0,"error":null}');
INSERT INTO "audit" VALUES(3,1767614414000000,'ann','resubmit','stream:telemetry',NULL,NULL,'{"resubmitted":1}');
INSERT INTO "audit" VALUES(4,1767614414000000,'ann','put','job:jc',NULL,NULL,'{"state":"Enabled","sku":"Standard","location":"West US"}');
INSERT INTO "audit" VALUES(5,1767614414000000,'ann','put','job:jc',NULL,NULL,'{"state":"enabled","uid":"uid-hourly","generation":1}');
INSERT INTO "audit" VALUES(6,1767614414000000,'ann','put','job:jc',NULL,NULL,'{"state":"disabled","uid":"uid-nightly","generation":1}');
INSERT INTO "audit" VALUES(7,1767614414000000,'ann','put','job:jc',NULL,NULL,'{"state":"enabled","uid":"uid-once","generation":1}');
INSERT INTO "audit" VALUES(8,1767614414000000,'ann','put','job:jc',NULL,NULL,'{"state":"enabled","uid":"uid-deleted","generation":1}');
INSERT INTO "audit" VALUES(9,1767614414000000,'ann','put','job:jc',NULL,'{"state":"enabled","uid":"uid-deleted","generation":1}',NULL);
INSERT INTO "audit" VALUES(10,1767621616000000,'ann','create','token:ci',NULL,NULL,'{"role":"submit","revoked":false}');
INSERT INTO "audit" VALUES(11,1767621616000000,'ann','create','token:gone',NULL,NULL,'{"role":"admin","revoked":false}');
INSERT INTO "audit" VALUES(12,1767621616000000,'ann','revoke','token:gone',NULL,'{"role":"admin","revoked":false}','{"role":"admin","revoked":true}');
INSERT INTO "audit" VALUES(13,1767621616000000,'ann','pause','workflow:idle','broken',NULL,'{"paused":true,"breaker":null,"by":"ann","reason":"broken"}');
INSERT INTO "audit" VALUES(14,1767621616000000,'supervisor','pause','agent:slow',NULL,NULL,'{"paused":true,"breaker":null,"by":"supervisor","reason":null}');
INSERT INTO "audit" VALUES(15,1767621616000000,'ann','acknowledge','alert:1',NULL,'{"acknowledged_by":null}','{"acknowledged_by":"ann"}');
CREATE TABLE "checkpoint" (
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
INSERT INTO "checkpoint" VALUES('telemetry','archive',0,0,5,'log','carol',1,1767614414000000);
INSERT INTO "checkpoint" VALUES('telemetry','archive',1,0,9,'log','carol',1,1767614414000000);
CREATE TABLE control (
    subject TEXT    NOT NULL CHECK (subject IN ('workflow', 'agent')),
    name    TEXT    NOT NULL,
    paused  INTEGER NOT NULL CHECK (paused IN (0, 1)),
    breaker TEXT    CHECK (breaker IN ('open', 'closed')),
    "by"    TEXT    NOT NULL,
    reason  TEXT,
    at      INTEGER NOT NULL,
    PRIMARY KEY (subject, name),
    CHECK (paused = 1 OR breaker IS NOT NULL),
    CHECK (breaker IS NULL OR subject = 'agent')
) STRICT, WITHOUT ROWID;
INSERT INTO "control" VALUES('agent','slow',1,NULL,'supervisor',NULL,1767621616000000);
INSERT INTO "control" VALUES('workflow','idle',1,NULL,'ann','broken',1767621616000000);
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
INSERT INTO "group_member" VALUES('telemetry','archive','carol',NULL,NULL);
CREATE TABLE idempotency_key (
    key        TEXT    PRIMARY KEY,
    digest     TEXT    NOT NULL,
    task_id    TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "idempotency_key" VALUES('key','digest','processed',1767621616000000);
CREATE TABLE instance (
    id           TEXT    PRIMARY KEY,
    -- Moves on when the instance is declared dead: every write it still tries is refused.
    epoch        INTEGER NOT NULL,
    live         INTEGER NOT NULL CHECK (live IN (0, 1)),
    host         TEXT    NOT NULL,
    pid          INTEGER NOT NULL,
    runs         TEXT    NOT NULL,
    started_at   INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL
, roles  TEXT NOT NULL DEFAULT '[]', report TEXT NOT NULL DEFAULT '{}') STRICT, WITHOUT ROWID;
INSERT INTO "instance" VALUES('alice',1,1,'localhost',1,'[["ship",1],["nap",1],["approve",1],["order",1],["pack",1]]',1767614400000000,1767614400000000,'[]','{}');
INSERT INTO "instance" VALUES('bob',1,1,'localhost',1,'[["remote",1]]',1767614412000000,1767614412000000,'[]','{}');
INSERT INTO "instance" VALUES('carol',1,1,'localhost',1,'[["ship",1]]',1767614414000000,1767614414000000,'[]','{}');
INSERT INTO "instance" VALUES('host',1,1,'localhost',2,'[]',1767614412000000,1767614412000000,'["agents"]','{}');
INSERT INTO "instance" VALUES('ticker',1,1,'localhost',1,'[["backstay.job",1]]',1767614414000000,1767614414000000,'[]','{}');
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
INSERT INTO "job" VALUES(1,1,'hourly','hourly','uid-hourly',1,'enabled','one','skip',1767614414000000,1767614414000000,1767625216000000,1767625216000000,1767614434000000,1,1767621616000000,1,1,0,1767614434000000,0,NULL,3,'{"action":{"serviceBusQueueMessage":{"queueName":"rings","namespace":"shop","message":"it is time","transportType":"amqp"},"type":"ServiceBusQueue","retryPolicy":{"retryType":"none"}},"recurrence":{"frequency":"hour","interval":1}}');
INSERT INTO "job" VALUES(2,1,'nightly','nightly','uid-nightly',1,'disabled','one','skip',1767614414000000,1767614414000000,NULL,NULL,NULL,0,NULL,0,0,0,NULL,NULL,NULL,0,'{"action":{"request":{"uri":"http://127.0.0.1:9/","method":"GET","authentication":{"username":"ann","type":"Basic"}},"type":"Http","retryPolicy":{"retryType":"none"}},"recurrence":{"frequency":"day","interval":1}}');
INSERT INTO "job" VALUES(3,1,'once','once','uid-once',1,'enabled','one','skip',1767614414000000,1767614414000000,NULL,NULL,1767618000000000,1,NULL,0,0,0,NULL,NULL,NULL,0,'{"startTime":"2026-01-05T13:00:00Z","action":{"serviceBusQueueMessage":{"queueName":"rings","namespace":"shop","message":"it is time","transportType":"amqp"},"type":"ServiceBusQueue","retryPolicy":{"retryType":"none"}}}');
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
INSERT INTO "job_collection" VALUES(1,'sub','rg','jc','sub','rg','jc','West US','{"team":"shop"}','Standard','Enabled',NULL);
CREATE TABLE job_gone (
    job_key INTEGER PRIMARY KEY
) STRICT;
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
INSERT INTO "job_history" VALUES(1,1,1,NULL,0,'MainAction',0,'postponed',1767621615000000,1767621616000000,1767621616000000,2,1,'The occurrence of 2026-01-05T14:00:15Z was skipped: an earlier one was at work, and overlap is ''skip''.');
INSERT INTO "job_history" VALUES(2,1,1,1767614434000000,0,'MainAction',0,'failed',1767614434000000,1767621616000000,1767621617000000,1,1,'said');
INSERT INTO "job_history" VALUES(3,1,1,1767614434000000,0,'MainAction',1,'completed',1767614434000000,1767621616000000,1767621617000000,1,1,'said');
CREATE TABLE job_secret (
    job_key INTEGER NOT NULL,
    -- The place in the definition that it belongs to.
    place   TEXT    NOT NULL,
    secret  TEXT    NOT NULL,
    PRIMARY KEY (job_key, place)
) STRICT, WITHOUT ROWID;
INSERT INTO "job_secret" VALUES(2,'action.request.authentication.password','a password of nobody');
CREATE TABLE job_task (
    job_key INTEGER NOT NULL,
    task_id TEXT    NOT NULL,
    PRIMARY KEY (job_key, task_id)
) STRICT, WITHOUT ROWID;
INSERT INTO "job_task" VALUES(1,'job:uid-hourly:1:1767614434000000');
INSERT INTO "job_task" VALUES(3,'job:uid-once:1:1767618000000000');
CREATE TABLE leader (
    name   TEXT    PRIMARY KEY CHECK (name = 'supervisor'),
    holder TEXT,
    -- Moves on with every change of leader: what an earlier one still tries to write is refused.
    epoch  INTEGER NOT NULL,
    until  INTEGER,
    CHECK ((holder IS NULL) = (until IS NULL))
) STRICT, WITHOUT ROWID;
INSERT INTO "leader" VALUES('supervisor','supervisor',1,1767621631000000);
CREATE TABLE "message" (
    sequence       INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_key      INTEGER NOT NULL,
    id             TEXT    NOT NULL,
    properties     TEXT    NOT NULL,
    session        TEXT,
    priority       INTEGER NOT NULL,
    state          TEXT    NOT NULL,
    rank           INTEGER NOT NULL,
    enqueued_at    INTEGER NOT NULL,
    visible_at     INTEGER,
    expires_at     INTEGER,
    lock_secret    TEXT,
    delivery_count INTEGER NOT NULL DEFAULT 0,
    reason         TEXT,
    detail         TEXT,
    dead_at        INTEGER,
    -- Whether a receiver has set it aside to ask for it by its number: there it goes back to, until it is settled.
    deferred       INTEGER NOT NULL DEFAULT 0 CHECK (deferred = 0 OR deferred = 1),
    body           BLOB    NOT NULL,

    CHECK (CASE state
        WHEN 'ready'    THEN visible_at IS NULL AND lock_secret IS NULL AND deferred = 0
        WHEN 'locked'   THEN visible_at IS NOT NULL AND lock_secret IS NOT NULL AND delivery_count > 0
        WHEN 'behind'   THEN visible_at IS NULL AND lock_secret IS NULL AND session IS NOT NULL AND deferred = 0
        WHEN 'waiting'  THEN visible_at IS NOT NULL AND lock_secret IS NULL AND deferred = 0
        WHEN 'deferred' THEN visible_at IS NULL AND lock_secret IS NULL AND expires_at IS NULL AND deferred = 1
        WHEN 'dead'     THEN visible_at IS NULL AND lock_secret IS NULL AND expires_at IS NULL
                             AND reason IS NOT NULL AND dead_at IS NOT NULL
        ELSE 0 END)
) STRICT;
INSERT INTO "message" VALUES(1,4,'p1','{"color":"red"}',NULL,0,'ready',1767614412000000,1767614412000000,NULL,NULL,NULL,0,NULL,NULL,NULL,0,X'7B227072696365223A377D');
INSERT INTO "message" VALUES(2,5,'p1','{"color":"red"}',NULL,0,'ready',1767614412000000,1767614412000000,NULL,NULL,NULL,0,NULL,NULL,NULL,0,X'7B227072696365223A377D');
INSERT INTO "message" VALUES(3,4,'p2','{"color":"blue"}',NULL,0,'ready',1767614412000000,1767614412000000,NULL,NULL,NULL,0,NULL,NULL,NULL,0,X'7B227072696365223A387D');
INSERT INTO "message" VALUES(4,1,'dead','{}',NULL,0,'dead',1767614412000000,1767614412000000,NULL,NULL,NULL,1,'bad address','no such street',1767614412000000,0,X'226465616422');
INSERT INTO "message" VALUES(5,1,'deferred','{}',NULL,0,'deferred',1767614412000000,1767614412000000,NULL,NULL,NULL,1,NULL,NULL,NULL,1,X'22646566657272656422');
INSERT INTO "message" VALUES(6,1,'conflict','{}',NULL,0,'dead',1767614412000000,1767614412000000,NULL,NULL,NULL,2,'MaxDeliveryCountExceeded',NULL,1767614414000000,0,X'22636F6E666C69637422');
INSERT INTO "message" VALUES(7,1,'locked','{}',NULL,0,'locked',1767614414000000,1767614414000000,1767614474000000,NULL,'secret-5',1,NULL,NULL,NULL,0,X'226C6F636B656422');
INSERT INTO "message" VALUES(8,1,'later','{}',NULL,0,'waiting',1767618014000000,1767618014000000,1767618014000000,NULL,NULL,0,NULL,NULL,NULL,0,X'226C6174657222');
INSERT INTO "message" VALUES(9,1,'ready','{"n":1}',NULL,3,'ready',1767614234000000,1767614414000000,NULL,NULL,NULL,0,NULL,NULL,NULL,0,X'22726561647922');
INSERT INTO "message" VALUES(10,1,'first','{}','s',0,'ready',1767614414000000,1767614414000000,NULL,NULL,NULL,0,NULL,NULL,NULL,0,X'22666972737422');
INSERT INTO "message" VALUES(11,1,'behind','{}','s',0,'behind',1767614414000000,1767614414000000,NULL,NULL,NULL,0,NULL,NULL,NULL,0,X'22626568696E6422');
INSERT INTO "message" VALUES(12,3,'told:received:1','{"task_id":"told","workflow":"ship","status":"received","correlation_id":"told"}',NULL,0,'ready',1767614414000000,1767614414000000,NULL,NULL,NULL,0,NULL,NULL,NULL,0,X'7B227461736B5F6964223A22746F6C64222C22776F726B666C6F77223A2273686970222C22737461747573223A227265636569766564222C2273657175656E6365223A312C226174223A22323032362D30312D30355431323A30303A31345A227D');
CREATE TABLE message_id (
    queue_key INTEGER NOT NULL,
    id        TEXT    NOT NULL,
    sequence  INTEGER NOT NULL,
    until     INTEGER NOT NULL,
    PRIMARY KEY (queue_key, id)
) STRICT, WITHOUT ROWID;
INSERT INTO "message_id" VALUES(1,'behind',11,1767615014000000);
INSERT INTO "message_id" VALUES(1,'conflict',6,1767615012000000);
INSERT INTO "message_id" VALUES(1,'dead',4,1767615012000000);
INSERT INTO "message_id" VALUES(1,'deferred',5,1767615012000000);
INSERT INTO "message_id" VALUES(1,'first',10,1767615014000000);
INSERT INTO "message_id" VALUES(1,'later',8,1767615014000000);
INSERT INTO "message_id" VALUES(1,'locked',7,1767615014000000);
INSERT INTO "message_id" VALUES(1,'ready',9,1767615014000000);
INSERT INTO "message_id" VALUES(4,'p1',1,1767615012000000);
INSERT INTO "message_id" VALUES(4,'p2',3,1767615012000000);
INSERT INTO "message_id" VALUES(5,'p1',2,1767615012000000);
CREATE TABLE migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL) STRICT;
INSERT INTO "migration" VALUES(1,'tasks_and_steps','ac008a79f7296f28f0335d69e4c044a92149271a4fabb83a0abcbe0c13178725');
INSERT INTO "migration" VALUES(2,'supervision_and_records','036c3b6b50ed87fd6a5a9e3b3570a3cf0d419e3fdbe5f8536c70953e8b5ca2a9');
INSERT INTO "migration" VALUES(3,'rules_by_state','2d0073c57d9db3889ccb9f8c664e5b94e90b3957739fc45381b63fbc1682b988');
INSERT INTO "migration" VALUES(4,'queues','b9e3602a240799d6dc7b716dd7f6f4bd00afe3765a0e393532ef06c72476ff83');
INSERT INTO "migration" VALUES(5,'statuses','330768b91fa2f044f19371e47559cde9123b887cd2702001027f89c44d6c95a1');
INSERT INTO "migration" VALUES(6,'agent_requests','303c9e6eaab22a9b5c2e8a98ccced03f78a66392a33b1d1f7a04c677cc45e95f');
INSERT INTO "migration" VALUES(7,'bounded_queues','83041546c0bc8201f9eff792264e0e665fc73fbb0f83f7cbb5012a137a5c24bc');
INSERT INTO "migration" VALUES(8,'groups','6fe05cff366f3fe10cc6d8e7a1017e51219f681ae3de6abd4a78a8265c8beac7');
INSERT INTO "migration" VALUES(9,'shared_partitions','f9ef21085f5c6f470d67372f84a5bca78e7e76521a6c3260ab71b68cb823c3e8');
INSERT INTO "migration" VALUES(10,'jobs','74956c8787faaaabda0e818230747a941891cbc1ebef19cfd23da14030222c44');
CREATE TABLE payload (
    task_key INTEGER NOT NULL,
    digest   TEXT    NOT NULL,
    body     BLOB    NOT NULL,
    PRIMARY KEY (task_key, digest)
) STRICT;
INSERT INTO "payload" VALUES(2,'f903fa028e4de186ef4998d7f4dfe6423cd36bb414c3f8f33eded6007319ef83',X'226C61726765206C61726765206C61726765206C61726765206C61726765206C61726765206C61726765206C61726765206C61726765206C61726765206C61726765206C61726765206C61726765206C61726765206C61726765206C61726765206C61726765206C61726765206C61726765206C617267652022');
INSERT INTO "payload" VALUES(19,'31d6aeddfc6e1f05e198e091b3f34caaf81fb4bbeb0641ec709ea65dd087e929',X'7B226F6363757272656E6365223A7B226A6F625F6B6579223A312C22756964223A227569642D686F75726C79222C2267656E65726174696F6E223A312C226174223A22323032362D30312D30355431323A30303A33345A222C2262795F68616E64223A66616C73652C226E756D626572223A317D2C22636F6C6C656374696F6E223A7B22737562736372697074696F6E223A22737562222C227265736F757263655F67726F7570223A227267222C226E616D65223A226A63227D2C22726567696F6E223A2257657374205553222C226A6F62223A22686F75726C79222C22616374696F6E223A7B227265747279506F6C696379223A7B22726574727954797065223A226E6F6E65227D2C227365727669636542757351756575654D657373616765223A7B226D657373616765223A2269742069732074696D65222C226E616D657370616365223A2273686F70222C2271756575654E616D65223A2272696E6773222C227472616E73706F727454797065223A22616D7170227D2C2274797065223A22536572766963654275735175657565227D7D');
INSERT INTO "payload" VALUES(20,'e2de60a43898227f919689fb390eb0e50e811f99500cf517898529c0f91993b7',X'7B226F6363757272656E6365223A7B226A6F625F6B6579223A332C22756964223A227569642D6F6E6365222C2267656E65726174696F6E223A312C226174223A22323032362D30312D30355431333A30303A30305A222C2262795F68616E64223A66616C73652C226E756D626572223A317D2C22636F6C6C656374696F6E223A7B22737562736372697074696F6E223A22737562222C227265736F757263655F67726F7570223A227267222C226E616D65223A226A63227D2C22726567696F6E223A2257657374205553222C226A6F62223A226F6E6365222C22616374696F6E223A7B227265747279506F6C696379223A7B22726574727954797065223A226E6F6E65227D2C227365727669636542757351756575654D657373616765223A7B226D657373616765223A2269742069732074696D65222C226E616D657370616365223A2273686F70222C2271756575654E616D65223A2272696E6773222C227472616E73706F727454797065223A22616D7170227D2C2274797065223A22536572766963654275735175657565227D7D');
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
INSERT INTO "quarantine" VALUES(1,'telemetry','archive',1,1,'k','e1',NULL,1893499200000000,'no',1767614414000000,0,X'7B226C6F6164223A377D');
INSERT INTO "quarantine" VALUES(2,'telemetry','archive',1,7,NULL,NULL,NULL,1893499200000000,'again',1767614414000000,1,X'7B226C6F6164223A377D');
CREATE TABLE "queue" (
    key                 INTEGER PRIMARY KEY AUTOINCREMENT,
    name                TEXT    NOT NULL UNIQUE,
    lock_time           INTEGER NOT NULL CHECK (lock_time > 0),
    max_deliveries      INTEGER NOT NULL CHECK (max_deliveries > 0),
    dedup               INTEGER NOT NULL CHECK (dedup >= 0),
    ttl                 INTEGER CHECK (ttl > 0),
    dead_letter_expired INTEGER NOT NULL,
    sessions            INTEGER NOT NULL,
    -- So many messages may be in it, in whatever state.
    max_messages        INTEGER NOT NULL DEFAULT 1000000 CHECK (max_messages > 0),
    created_at          INTEGER NOT NULL
) STRICT;
INSERT INTO "queue" VALUES(1,'orders',60000000,2,600000000,NULL,0,0,1000000,1767614412000000);
INSERT INTO "queue" VALUES(2,'rings',60000000,10,600000000,NULL,0,0,1000000,1767614412000000);
INSERT INTO "queue" VALUES(3,'desk',60000000,10,600000000,NULL,0,0,1000000,1767614412000000);
INSERT INTO "queue" VALUES(4,'prices:all',60000000,10,600000000,NULL,0,0,1000000,1767614412000000);
INSERT INTO "queue" VALUES(5,'prices:red',60000000,10,600000000,NULL,0,0,1000000,1767614412000000);
CREATE TABLE recovery (
    id       INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL,
    workflow TEXT    NOT NULL,
    -- Of a step that expired; NULL: of a task as a whole.
    agent    TEXT,
    number   INTEGER NOT NULL CHECK (number > 0)
) STRICT;
CREATE TABLE signal (
    task_key    INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    name        TEXT    NOT NULL,
    dedup       TEXT,
    payload     BLOB    NOT NULL,
    consumed_by TEXT,
    received_at INTEGER NOT NULL,
    PRIMARY KEY (task_key, number)
) STRICT, WITHOUT ROWID;
INSERT INTO "signal" VALUES(9,1,'approved','once',X'74727565','wait_for-approved:1',1767614408000000);
INSERT INTO "signal" VALUES(15,1,'early',NULL,X'31',NULL,1767614412000000);
CREATE TABLE "step" (
    task_key      INTEGER NOT NULL,
    key           TEXT    NOT NULL,
    kind          TEXT    NOT NULL,
    agent         TEXT,
    operation     TEXT    NOT NULL,
    state         TEXT    NOT NULL,
    attempt       INTEGER NOT NULL,
    failure_count INTEGER NOT NULL,
    complete_by   INTEGER,
    input         BLOB,
    output        BLOB,
    error         BLOB,
    started_at    INTEGER,
    ended_at      INTEGER,
    position      INTEGER,
    "undo"        TEXT    CHECK ("undo" = 'automatic' OR "undo" = 'manual'),
    undo_attempt  INTEGER NOT NULL,
    undo_failures INTEGER NOT NULL,
    pivot         INTEGER NOT NULL CHECK (pivot = 0 OR pivot = 1),
    unsure        INTEGER NOT NULL CHECK (unsure = 0 OR unsure = 1),

    -- Clustered by task: a journal is one range read.
    PRIMARY KEY (task_key, key),
    CHECK (CASE kind
        WHEN 'step'   THEN agent IS NOT NULL
        WHEN 'sleep'  THEN 1
        WHEN 'signal' THEN 1
        WHEN 'child'  THEN 1
        WHEN 'value'  THEN 1
        ELSE 0 END),
    -- A step that is queued, or parked by a breaker, has no complete-by; a running one always has.
    CHECK (CASE state
        WHEN 'running'     THEN position IS NULL AND (kind <> 'step' OR complete_by IS NOT NULL AND attempt > 0)
        WHEN 'completed'   THEN position IS NOT NULL AND output IS NOT NULL
        WHEN 'pending'     THEN position IS NULL AND complete_by IS NULL
        WHEN 'failed'      THEN 1
        WHEN 'skipped'     THEN 1
        WHEN 'undoing'     THEN 1
        WHEN 'undone'      THEN 1
        WHEN 'undo_failed' THEN 1
        ELSE 0 END)
) STRICT, WITHOUT ROWID;
INSERT INTO "step" VALUES(1,'charge:1','step','bank','charge','completed',1,0,NULL,X'37',X'2272656365697074203722',NULL,1767614401000000,1767614401000000,1,'automatic',0,0,0,0);
INSERT INTO "step" VALUES(2,'charge:1','step','bank','charge','completed',1,0,NULL,X'37',X'4066393033666130323865346465313836656634393938643766346466653634323363643336626234313463336638663333656465643630303733313965663833',NULL,1767614402000000,1767614402000000,1,'automatic',0,0,0,0);
INSERT INTO "step" VALUES(3,'charge:1','step','bank','charge','failed',1,1,NULL,X'37',NULL,X'7B2274797065223A2252656675736564222C226D657373616765223A227468652062616E6B2073616964206E6F222C2273746570223A226368617267653A31222C227065726D616E656E74223A747275657D',1767614403000000,1767614403000000,1,NULL,0,0,0,1);
INSERT INTO "step" VALUES(4,'charge:1','step','bank','charge','pending',0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,0);
INSERT INTO "step" VALUES(4,'charge:2','step','bank','charge','pending',0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,0);
INSERT INTO "step" VALUES(5,'charge:1','step','bank','charge','undone',1,0,NULL,X'37',X'2272656365697074203722',NULL,1767614404000000,1767614404000000,1,'automatic',1,0,0,0);
INSERT INTO "step" VALUES(5,'pack:1','step','bank','pack','skipped',0,0,NULL,X'37',NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,0);
INSERT INTO "step" VALUES(5,'send:1','step','bank','send','failed',1,1,NULL,X'37',NULL,X'7B2274797065223A2252656675736564222C226D657373616765223A227468652062616E6B2073616964206E6F222C2273746570223A226368617267653A31222C227065726D616E656E74223A747275657D',1767614404000000,1767614404000000,2,NULL,0,0,0,0);
INSERT INTO "step" VALUES(6,'charge:1','step','bank','charge','undo_failed',1,0,NULL,X'37',X'2272656365697074203722',NULL,1767614405000000,1767614405000000,1,'automatic',1,1,0,0);
INSERT INTO "step" VALUES(6,'pack:1','step','bank','pack','skipped',0,0,NULL,X'37',NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,0);
INSERT INTO "step" VALUES(6,'send:1','step','bank','send','failed',1,1,NULL,X'37',NULL,X'7B2274797065223A2252656675736564222C226D657373616765223A227468652062616E6B2073616964206E6F222C2273746570223A226368617267653A31222C227065726D616E656E74223A747275657D',1767614405000000,1767614405000000,2,NULL,0,0,0,0);
INSERT INTO "step" VALUES(7,'sleep:1','sleep',NULL,'sleep','running',0,0,1767614415000000,X'31302E30',NULL,NULL,1767614406000000,NULL,NULL,NULL,0,0,0,0);
INSERT INTO "step" VALUES(8,'wait_for-approved:1','signal',NULL,'approved','running',0,0,NULL,X'6E756C6C',NULL,NULL,1767614407000000,NULL,NULL,NULL,0,0,0,0);
INSERT INTO "step" VALUES(9,'wait_for-approved:1','signal',NULL,'approved','completed',0,0,NULL,X'6E756C6C',X'74727565',NULL,1767614407000000,1767614408000000,1,NULL,0,0,0,0);
INSERT INTO "step" VALUES(10,'start-pack:1','child',NULL,'parent:start-pack:1','running',0,0,NULL,X'37',NULL,NULL,1767614409000000,NULL,NULL,'automatic',0,0,0,0);
INSERT INTO "step" VALUES(12,'charge:1','step','bank','charge','running',1,0,1767614440000000,X'37',NULL,NULL,1767614410000000,NULL,NULL,'automatic',0,0,0,0);
INSERT INTO "step" VALUES(14,'charge:1','step','bank','charge','undoing',1,0,NULL,X'37',X'2272656365697074203722',NULL,1767614412000000,1767614412000000,1,'automatic',1,0,0,0);
INSERT INTO "step" VALUES(16,'charge:1','step','far','charge','running',1,0,1767614442000000,X'37',NULL,NULL,1767614412000000,NULL,NULL,NULL,0,0,0,0);
CREATE TABLE subscription (
    topic     TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    queue_key INTEGER NOT NULL,
    -- An object: each of its properties must be there, with just that value.
    filter    TEXT    NOT NULL,
    PRIMARY KEY (topic, name)
) STRICT, WITHOUT ROWID;
INSERT INTO "subscription" VALUES('prices','all',4,'{}');
INSERT INTO "subscription" VALUES('prices','red',5,'{"color":"red"}');
CREATE TABLE supervisor_round (
    id            INTEGER PRIMARY KEY,
    at            INTEGER NOT NULL,
    epoch         INTEGER NOT NULL,
    freed         INTEGER NOT NULL,
    overrun       INTEGER NOT NULL,
    steps_expired INTEGER NOT NULL,
    undos         INTEGER NOT NULL,
    woken         INTEGER NOT NULL,
    paused        INTEGER NOT NULL
) STRICT;
INSERT INTO "supervisor_round" VALUES(1,1767621616000000,1,0,0,0,0,1,0);
CREATE TABLE "task" (
    -- A small number inside, a readable id outside: the steps repeat only the number.
    key           INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    workflow      TEXT    NOT NULL,
    version       INTEGER NOT NULL,
    state         TEXT    NOT NULL,
    input         BLOB    NOT NULL,
    output        BLOB,
    error         BLOB,
    complete_by   INTEGER,
    hard_end      INTEGER,
    locked_by     TEXT,
    lock_number   INTEGER NOT NULL DEFAULT 0,
    failure_count INTEGER NOT NULL DEFAULT 0,
    crash_count   INTEGER NOT NULL DEFAULT 0,
    wake_at       INTEGER,
    parked        INTEGER NOT NULL DEFAULT 0,
    request       TEXT    CHECK (request = 'cancel' OR request = 'undo'),
    reply_to      TEXT,
    attributes    TEXT    NOT NULL,
    parent_key    INTEGER,
    parent_step   TEXT,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,

    -- A task that nobody works on is nobody's, and has no complete-by. Every waiting task has a way back:
    -- a wake-up, or something that will call it.
    CHECK (CASE state
        WHEN 'processing'  THEN parked = 0 AND locked_by IS NOT NULL
        WHEN 'processed'   THEN parked = 0 AND locked_by IS NULL AND output IS NOT NULL
        WHEN 'pending'     THEN parked = 0 AND locked_by IS NULL
        WHEN 'waiting'     THEN parked = 1 AND locked_by IS NULL
        WHEN 'error'       THEN parked = 0 AND locked_by IS NULL AND error IS NOT NULL
        WHEN 'undoing'     THEN parked = 0 OR parked = 1
        WHEN 'undone'      THEN parked = 0 AND locked_by IS NULL
        WHEN 'undo_failed' THEN parked = 0 AND locked_by IS NULL
        WHEN 'cancelled'   THEN parked = 0 AND locked_by IS NULL
        ELSE 0 END),
    CHECK (locked_by IS NOT NULL OR complete_by IS NULL)
) STRICT;
INSERT INTO "task" VALUES(1,'processed','ship',1,'processed',X'37',X'2272656365697074203722',NULL,NULL,NULL,NULL,1,0,0,NULL,0,NULL,NULL,'{"customer":"ann"}',NULL,NULL,1767614400000000,1767614401000000);
INSERT INTO "task" VALUES(2,'large','ship',1,'processed',X'4066393033666130323865346465313836656634393938643766346466653634323363643336626234313463336638663333656465643630303733313965663833',X'4066393033666130323865346465313836656634393938643766346466653634323363643336626234313463336638663333656465643630303733313965663833',NULL,NULL,NULL,NULL,1,0,0,NULL,0,NULL,NULL,'{}',NULL,NULL,1767614401000000,1767614402000000);
INSERT INTO "task" VALUES(3,'error','ship',1,'error',X'37',NULL,X'7B2274797065223A2252656675736564222C226D657373616765223A227468652062616E6B2073616964206E6F222C2273746570223A226368617267653A31222C227065726D616E656E74223A747275657D',NULL,NULL,NULL,1,0,0,NULL,0,NULL,NULL,'{}',NULL,NULL,1767614402000000,1767614403000000);
INSERT INTO "task" VALUES(4,'cancelled','ship',1,'cancelled',X'37',NULL,NULL,NULL,1767618003000000,NULL,0,0,0,NULL,0,NULL,NULL,'{}',NULL,NULL,1767614403000000,1767614403000000);
INSERT INTO "task" VALUES(5,'undone','ship',1,'undone',X'37',NULL,X'7B2274797065223A2252656675736564222C226D657373616765223A227468652062616E6B2073616964206E6F222C2273746570223A226368617267653A31222C227065726D616E656E74223A747275657D',NULL,NULL,NULL,1,0,0,NULL,0,NULL,NULL,'{}',NULL,NULL,1767614403000000,1767614404000000);
INSERT INTO "task" VALUES(6,'undo_failed','ship',1,'undo_failed',X'37',NULL,X'7B2274797065223A2252656675736564222C226D657373616765223A227468652062616E6B2073616964206E6F222C2273746570223A226368617267653A31222C227065726D616E656E74223A747275657D',NULL,NULL,NULL,1,0,0,NULL,0,NULL,NULL,'{}',NULL,NULL,1767614404000000,1767614405000000);
INSERT INTO "task" VALUES(7,'sleeping','nap',1,'waiting',X'37',NULL,NULL,NULL,NULL,NULL,1,0,0,1767614415000000,1,NULL,NULL,'{}',NULL,NULL,1767614405000000,1767614406000000);
INSERT INTO "task" VALUES(8,'approving','approve',1,'waiting',X'37',NULL,NULL,NULL,NULL,NULL,1,0,0,NULL,1,NULL,NULL,'{}',NULL,NULL,1767614406000000,1767614407000000);
INSERT INTO "task" VALUES(9,'signalled','approve',1,'processed',X'37',X'74727565',NULL,NULL,NULL,NULL,1,0,0,NULL,0,NULL,NULL,'{}',NULL,NULL,1767614407000000,1767614408000000);
INSERT INTO "task" VALUES(10,'parent','order',1,'waiting',X'37',NULL,NULL,NULL,NULL,NULL,1,0,0,NULL,1,NULL,NULL,'{}',NULL,NULL,1767614408000000,1767614409000000);
INSERT INTO "task" VALUES(11,'parent:start-pack:1','pack',1,'pending',X'37',NULL,NULL,NULL,NULL,NULL,0,0,0,NULL,0,NULL,NULL,'{}',10,'start-pack:1',1767614409000000,1767614409000000);
INSERT INTO "task" VALUES(12,'processing','ship',1,'processing',X'37',NULL,NULL,1767615009000000,NULL,'alice',1,0,0,NULL,0,NULL,NULL,'{}',NULL,NULL,1767614409000000,1767614409000000);
INSERT INTO "task" VALUES(13,'asked','ship',1,'processing',X'37',NULL,NULL,1767615010000000,NULL,'alice',1,0,0,NULL,0,'cancel',NULL,'{}',NULL,NULL,1767614410000000,1767614411000000);
INSERT INTO "task" VALUES(14,'undoing','ship',1,'undoing',X'37',NULL,X'7B2274797065223A2252656675736564222C226D657373616765223A227468652062616E6B2073616964206E6F222C2273746570223A226368617267653A31222C227065726D616E656E74223A747275657D',NULL,NULL,NULL,1,0,0,NULL,0,NULL,NULL,'{}',NULL,NULL,1767614411000000,1767614412000000);
INSERT INTO "task" VALUES(15,'pending','ship',1,'pending',X'37',NULL,NULL,NULL,NULL,NULL,0,0,0,NULL,0,NULL,NULL,'{"customer":"bob"}',NULL,NULL,1767614412000000,1767614412000000);
INSERT INTO "task" VALUES(16,'remote','remote',1,'processing',X'37',NULL,NULL,1767615012000000,NULL,'bob',1,0,0,NULL,0,NULL,NULL,'{}',NULL,NULL,1767614412000000,1767614412000000);
INSERT INTO "task" VALUES(17,'told','ship',1,'pending',X'37',NULL,NULL,NULL,NULL,NULL,0,0,0,NULL,0,NULL,'queue:desk','{}',NULL,NULL,1767614414000000,1767614414000000);
INSERT INTO "task" VALUES(18,'from-stream','ship',1,'pending',X'37',NULL,NULL,NULL,NULL,NULL,0,0,0,NULL,0,NULL,NULL,'{}',NULL,NULL,1767614414000000,1767614414000000);
INSERT INTO "task" VALUES(19,'job:uid-hourly:1:1767614434000000','backstay.job',1,'processed',X'4033316436616564646663366531663035653139386530393162336633346361616638316662346262656230363431656337303965613635646430383765393239',X'6E756C6C',NULL,NULL,NULL,NULL,1,0,0,NULL,0,NULL,NULL,'{"job":"hourly","collection":"jc"}',NULL,NULL,1767618015000000,1767621616000000);
INSERT INTO "task" VALUES(20,'job:uid-once:1:1767618000000000','backstay.job',1,'processing',X'4065326465363061343338393832323766393139363839666233393065623065353065383131663939353030636635313738393835323963306639313939336237',NULL,NULL,1767622216000000,NULL,'ticker',1,0,0,NULL,0,NULL,NULL,'{"job":"once","collection":"jc"}',NULL,NULL,1767618015000000,1767621616000000);
CREATE TABLE token (
    name       TEXT    PRIMARY KEY,
    role       TEXT    NOT NULL CHECK (role IN ('read', 'submit', 'operate', 'admin')),
    digest     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO "token" VALUES('ci','submit','digest of ci',1767621616000000,NULL);
INSERT INTO "token" VALUES('gone','admin','digest of gone',1767621616000000,1767621616000000);
CREATE TABLE told (
    task_key INTEGER PRIMARY KEY,
    status   TEXT    NOT NULL CHECK (status IN ('received', 'started', 'completed', 'failed', 'undone')),
    -- Counts what was told of this task, and never goes back: message ids are made of it.
    sequence INTEGER NOT NULL CHECK (sequence > 0)
) STRICT;
INSERT INTO "told" VALUES(17,'received',1);
CREATE TABLE topic (
    name       TEXT    PRIMARY KEY,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "topic" VALUES('prices',1767614412000000);
CREATE INDEX instance_live ON instance (heartbeat_at) WHERE live = 1;
CREATE UNIQUE INDEX signal_once ON signal (task_key, name, dedup) WHERE dedup IS NOT NULL;
CREATE INDEX recovery_at ON recovery (at);
CREATE INDEX audit_target ON audit (target, id);
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only');
END;
CREATE TRIGGER audit_is_never_overwritten BEFORE INSERT ON audit
WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only');
END;
CREATE TRIGGER audit_is_never_shortened BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only');
END;
CREATE INDEX idempotency_key_created_at ON idempotency_key (created_at);
CREATE INDEX task_claimable ON task (workflow, version, key)
    WHERE locked_by IS NULL AND parked = 0 AND state IN ('pending', 'undoing');
CREATE INDEX task_locked ON task (complete_by, locked_by) WHERE locked_by IS NOT NULL;
CREATE INDEX task_wake ON task (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX task_unusual ON task (state, key)
    WHERE state IN ('waiting', 'error', 'undoing', 'undone', 'undo_failed', 'cancelled');
CREATE INDEX task_parent ON task (parent_key) WHERE parent_key IS NOT NULL;
CREATE INDEX task_hard_end ON task (hard_end) WHERE state = 'processing' AND hard_end IS NOT NULL;
CREATE TRIGGER task_arrows BEFORE UPDATE OF state ON task
WHEN OLD.state <> NEW.state AND CASE OLD.state || ' -> ' || NEW.state
    WHEN 'processing -> processed'  THEN 0
    WHEN 'pending -> processing'    THEN 0
    WHEN 'processing -> waiting'    THEN 0
    WHEN 'waiting -> pending'       THEN 0
    WHEN 'pending -> cancelled'     THEN 0
    WHEN 'processing -> pending'    THEN 0
    WHEN 'processing -> error'      THEN 0
    WHEN 'processing -> undoing'    THEN 0
    WHEN 'processing -> cancelled'  THEN 0
    WHEN 'waiting -> error'         THEN 0
    WHEN 'waiting -> undoing'       THEN 0
    WHEN 'waiting -> cancelled'     THEN 0
    WHEN 'error -> pending'         THEN 0
    WHEN 'error -> undoing'         THEN 0
    WHEN 'error -> cancelled'       THEN 0
    WHEN 'processed -> undoing'     THEN 0
    WHEN 'undoing -> undone'        THEN 0
    WHEN 'undoing -> undo_failed'   THEN 0
    WHEN 'undo_failed -> undoing'   THEN 0
    WHEN 'undo_failed -> undone'    THEN 0
    ELSE 1 END
BEGIN
    SELECT RAISE(ABORT, 'no such arrow between task states');
END;
CREATE TRIGGER step_arrows BEFORE UPDATE OF state ON step
WHEN OLD.state <> NEW.state AND CASE OLD.state || ' -> ' || NEW.state
    WHEN 'running -> completed'     THEN 0
    WHEN 'pending -> running'       THEN 0
    WHEN 'running -> failed'        THEN 0
    WHEN 'running -> pending'       THEN 0
    WHEN 'pending -> skipped'       THEN 0
    WHEN 'pending -> completed'     THEN 0
    WHEN 'failed -> pending'        THEN 0
    WHEN 'failed -> undoing'        THEN 0
    WHEN 'failed -> skipped'        THEN 0
    WHEN 'failed -> completed'      THEN 0
    WHEN 'completed -> undoing'     THEN 0
    WHEN 'undoing -> undone'        THEN 0
    WHEN 'undoing -> undo_failed'   THEN 0
    WHEN 'undo_failed -> undoing'   THEN 0
    WHEN 'undo_failed -> undone'    THEN 0
    ELSE 1 END
BEGIN
    SELECT RAISE(ABORT, 'no such arrow between step states');
END;
CREATE INDEX message_id_until ON message_id (until);
CREATE TRIGGER told_goes_forward BEFORE UPDATE ON told
WHEN NEW.sequence <= OLD.sequence
BEGIN
    SELECT RAISE(ABORT, 'what was told is not told again');
END;
CREATE INDEX agent_request_open ON agent_request (agent, number) WHERE claimed_by IS NULL;
CREATE INDEX agent_request_claimed ON agent_request (claimed_by) WHERE claimed_by IS NOT NULL;
CREATE INDEX subscription_queue ON subscription (queue_key);
CREATE INDEX message_ready ON message (queue_key, rank, sequence) WHERE state = 'ready';
CREATE INDEX message_locked ON message (queue_key, visible_at) WHERE state = 'locked';
CREATE INDEX message_waiting ON message (queue_key, visible_at) WHERE state = 'waiting';
CREATE INDEX message_expires ON message (queue_key, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX message_session ON message (queue_key, session, state, sequence)
    WHERE session IS NOT NULL AND state <> 'dead';
CREATE INDEX message_deferred ON message (queue_key, sequence) WHERE state = 'deferred';
CREATE INDEX message_dead ON message (queue_key, sequence) WHERE state = 'dead';
CREATE INDEX alert_open ON alert (id) WHERE acknowledged_at IS NULL;
CREATE INDEX alert_open_of ON alert (target) WHERE acknowledged_at IS NULL;
CREATE UNIQUE INDEX alert_once ON alert (target, kind)
    WHERE acknowledged_at IS NULL AND kind IN ('dead_letter', 'queue_full', 'quarantine');
CREATE INDEX quarantine_stream ON quarantine (stream, id);
CREATE INDEX quarantine_group ON quarantine (stream, grp, id);
CREATE INDEX quarantine_resubmitted ON quarantine (stream, grp, id) WHERE resubmitted = 1;
CREATE TRIGGER checkpoint_goes_forward BEFORE UPDATE ON checkpoint
WHEN OLD.checkpoint IS NOT NULL AND (NEW.checkpoint IS NULL OR NEW.checkpoint < OLD.checkpoint)
  OR NEW.epoch < OLD.epoch
BEGIN
    SELECT RAISE(ABORT, 'a checkpoint never moves back');
END;
CREATE INDEX job_collection_sku ON job_collection (subscription_folded, sku);
CREATE UNIQUE INDEX job_collection_free ON job_collection (subscription_folded) WHERE sku = 'Free';
CREATE INDEX job_armed ON job (armed_at, key) WHERE armed_at IS NOT NULL;
CREATE INDEX job_ended ON job (ended_at, key) WHERE ended_at IS NOT NULL;
CREATE INDEX job_ending ON job (key) WHERE state = 'enabled' AND next_at IS NULL;
CREATE INDEX job_history_newest ON job_history (job_key, started_at, number);
CREATE INDEX job_history_oldest ON job_history (started_at, number);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('queue',5);
INSERT INTO "sqlite_sequence" VALUES('message',12);
INSERT INTO "sqlite_sequence" VALUES('quarantine',2);
INSERT INTO "sqlite_sequence" VALUES('job_collection',1);
INSERT INTO "sqlite_sequence" VALUES('job',4);
INSERT INTO "sqlite_sequence" VALUES('job_history',3);
COMMIT;
