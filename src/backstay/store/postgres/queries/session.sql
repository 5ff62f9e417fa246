-- What PostgreSQL alone needs; the other files hold the same names as those of SQLite.

-- name: now
-- The instant of the caller, which only tests give; otherwise the server's own clock decides, so that
-- hosts whose clocks disagree do not. In a subselect, so that an index can be searched for it.
(SELECT coalesce(:now::timestamptz, clock_timestamp()))

-- name: micros
-- An instant, given in whole microseconds since 1970; as a number of seconds it would be rounded.
timestamptz 'epoch' + interval '1 microsecond' *

-- name: server_facts
-- And no query of this session is compiled, or given helpers: ours read a handful of rows by their keys, but
-- where there are millions the server expects more of them, and prepares for that for longer than it takes to
-- answer. Behind a pooler it may be another session next time, which costs time and nothing else.
SELECT current_setting('server_version_num')::int, current_setting('fsync'),
       current_setting('synchronous_commit'), clock_timestamp()
  FROM set_config('jit', 'off', false) AS compiled,
       set_config('max_parallel_workers_per_gather', '0', false) AS helped;

-- name: has_store
SELECT to_regclass(:name) IS NOT NULL;

-- name: schema_facts
-- How the name is written in SQL (a word that SQL itself uses needs quotes), and whether it is taken.
SELECT quote_ident(:name), to_regnamespace(quote_ident(:name)) IS NOT NULL;

-- name: one_at_a_time
-- Whoever does the same under this name waits until our transaction has ended.
SELECT pg_advisory_xact_lock(hashtext(:name));

-- name: applied_migrations
SELECT number, checksum FROM {schema}.migration;

-- name: insert_migration
INSERT INTO {schema}.migration (number, name, checksum) VALUES (:number, :name, :checksum);

-- name: mark
INSERT INTO {schema}.writer (id, number, used_at) VALUES (:id, :number, clock_timestamp())
ON CONFLICT (id) DO UPDATE SET number = excluded.number, used_at = excluded.used_at;

-- name: settle_mark
-- Waits for the transaction that may still be under way under this id, then tells the last that happened.
INSERT INTO {schema}.writer (id, number, used_at) VALUES (:id, 0, clock_timestamp())
ON CONFLICT (id) DO UPDATE SET used_at = excluded.used_at
RETURNING number;

-- name: forget_writers
-- Our own when we leave, and those that nobody used for a week: their processes died.
DELETE FROM {schema}.writer WHERE id = ANY (:ids::text[]) OR used_at < clock_timestamp() - interval '7 days';

-- name: notify
SELECT pg_notify(:channel, notice) FROM unnest(:notices::text[]) AS notice;

-- name: locks_at_hand
-- As lock_numbers, without those that another transaction holds on to.
SELECT key, locked_by, lock_number FROM {schema}.task WHERE key = ANY (:keys::bigint[])
 ORDER BY key FOR UPDATE SKIP LOCKED;

-- name: known_keys
SELECT key FROM {schema}.task WHERE key = ANY (:keys::bigint[]);

-- name: is_late
-- Of an instance: its lease ran out. Nobody could give a sign of life while the server was down, so a
-- lease counts from its start at the earliest. ``asked`` is when the question was sent: a network may
-- hold it up for longer than a lease.
live AND id IS DISTINCT FROM :spare::text
   AND greatest(heartbeat_at, CASE WHEN :now::timestamptz IS NULL THEN pg_postmaster_start_time() END)
       < least({now}, :asked::timestamptz) - :lease::interval

-- name: any_late
SELECT EXISTS (SELECT 1 FROM {schema}.instance WHERE {is_late});

-- name: cut_off
-- Ends the sessions of processes that stand still in the middle of a statement and hold up who lives or who
-- leads. The driver sends a statement that is new to the session in two parts: the server that waits for the
-- second is at work, as it counts, so that its own limit for idle transactions does not end the wait. Who lives
-- sends it at once. Nothing is lost: what is rolled back here, its process finds rolled back, or is dead.
SELECT pg_terminate_backend(pid)
  FROM pg_stat_activity AS session
 WHERE usename = current_user AND datname = current_database()
   AND state = 'active' AND wait_event = 'ClientRead' AND state_change < clock_timestamp() - :standing::interval
   AND EXISTS (SELECT 1 FROM pg_locks
                WHERE pg_locks.pid = session.pid AND pg_locks.database = session.datid
                  AND relation IN ('{schema}.instance'::regclass, '{schema}.leader'::regclass));

-- name: lock_turns
-- Who changes what comes next in a session does so alone, until the commit. Sessions share a few locks, taken
-- in one order, so that no batch needs many and no two wait for each other.
SELECT pg_advisory_xact_lock(hashtext(:name), turn) FROM (
       SELECT DISTINCT hashtext(queue_key || ' ' || session) & 255 AS turn
         FROM unnest(:queue_keys::bigint[], :sessions::text[]) AS one (queue_key, session)
        ORDER BY turn OFFSET 0) AS turns;

-- name: shut_queues
-- Everybody who sends or receives has looked up the queue in his own transaction: whoever did so has ended by
-- now, and who comes later finds that it is gone. Nothing less would do, and it is not done often.
LOCK TABLE {schema}.queue IN ACCESS EXCLUSIVE MODE;

-- name: lock_collection
-- As find_collection. Whoever else changes it, or its jobs, waits for our commit.
SELECT {collection_columns} FROM {schema}.job_collection AS collection
 WHERE subscription_folded = :subscription AND resource_group_folded = :resource_group AND name_folded = :name
   FOR UPDATE;

-- name: lock_job
-- As find_job; nobody fires it meanwhile, or records what became of it.
SELECT {standing_columns}, job.definition FROM {jobs_of}
 WHERE job.collection_key = :collection_key AND job.name_folded = :name
   FOR UPDATE OF job;

-- name: jobs_at_hand
-- As jobs_by_key, without those that another transaction holds on to: most likely it fires them.
SELECT {standing_columns}, NULL FROM {jobs_of}
 WHERE job.key = ANY (:keys::bigint[])
 ORDER BY job.key FOR UPDATE OF job SKIP LOCKED;
