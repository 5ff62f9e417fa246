-- name: queue_columns
queue.key, queue.name, queue.lock_time, queue.max_deliveries, queue.dedup, queue.ttl,
queue.dead_letter_expired, queue.sessions, queue.max_messages

-- name: message_columns
message.sequence, message.id, message.body, message.properties, message.session, message.priority,
message.state, message.delivery_count, message.enqueued_at, message.visible_at, message.expires_at,
message.lock_secret, message.reason, message.detail, message.dead_at

-- name: put_queue
-- A row that was inserted, not changed, has no xmax.
INSERT INTO {schema}.queue AS queue
       (name, lock_time, max_deliveries, dedup, ttl, dead_letter_expired, sessions, max_messages, created_at)
VALUES (:name, :lock_time, :max_deliveries, :dedup, :ttl, :dead_letter_expired, :sessions, :max_messages, :now)
ON CONFLICT (name) DO UPDATE
   SET lock_time = excluded.lock_time, max_deliveries = excluded.max_deliveries, dedup = excluded.dedup,
       ttl = excluded.ttl, dead_letter_expired = excluded.dead_letter_expired, sessions = excluded.sessions,
       max_messages = excluded.max_messages
RETURNING key, xmax = 0;

-- name: queues_of
SELECT {queue_columns} FROM {schema}.queue WHERE name = ANY (:names::text[]);

-- name: list_queues
SELECT {queue_columns} FROM {schema}.queue
 WHERE name COLLATE "C" > :after ORDER BY name COLLATE "C" LIMIT :limit;

-- name: counts_of
-- By the index that holds each state, which the order leads to; counted no further than anybody wants to know.
SELECT (SELECT count(*) FROM (SELECT 1 FROM {schema}.message
         WHERE queue_key = queue.key AND state = 'ready'
         ORDER BY rank, sequence LIMIT :counted) AS found),
       (SELECT count(*) FROM (SELECT 1 FROM {schema}.message
         WHERE queue_key = queue.key AND session IS NOT NULL AND state <> 'dead' AND state = 'behind'
         ORDER BY session, state, sequence LIMIT :counted) AS found),
       (SELECT count(*) FROM (SELECT 1 FROM {schema}.message
         WHERE queue_key = queue.key AND state = 'waiting'
         ORDER BY visible_at LIMIT :counted) AS found),
       (SELECT count(*) FROM (SELECT 1 FROM {schema}.message
         WHERE queue_key = queue.key AND state = 'locked'
         ORDER BY visible_at LIMIT :counted) AS found),
       (SELECT count(*) FROM (SELECT 1 FROM {schema}.message
         WHERE queue_key = queue.key AND state = 'deferred'
         ORDER BY sequence LIMIT :counted) AS found),
       (SELECT count(*) FROM (SELECT 1 FROM {schema}.message
         WHERE queue_key = queue.key AND state = 'dead'
         ORDER BY sequence LIMIT :counted) AS found)
  FROM {schema}.queue WHERE key = :key;

-- name: levels_of
-- As far as anybody wants to know, in the order of receiving: what is beyond is less urgent than all of these.
SELECT priority, count(*), min(enqueued_at)
  FROM (SELECT priority, enqueued_at FROM {schema}.message
         WHERE queue_key = :key AND state = 'ready'
         ORDER BY rank, sequence LIMIT :counted) AS found
 GROUP BY priority ORDER BY priority;

-- name: list_sessions
-- Those of their messages that are not done, as far as anybody wants to know.
SELECT session, count(*), count(*) FILTER (WHERE state = 'locked'), min(enqueued_at)
  FROM (SELECT session, state, enqueued_at FROM {schema}.message
         WHERE queue_key = :key AND session IS NOT NULL AND state <> 'dead' AND session > :after
         ORDER BY session, state, sequence LIMIT :counted) AS found
 GROUP BY session ORDER BY session LIMIT :limit;

-- name: put_topic
INSERT INTO {schema}.topic (name, created_at) VALUES (:name, :now) ON CONFLICT (name) DO NOTHING RETURNING name;

-- name: has_topic
-- Locked, so that two who subscribe come one after the other.
SELECT 1 FROM {schema}.topic WHERE name = :name FOR UPDATE;

-- name: put_subscription
INSERT INTO {schema}.subscription (topic, name, queue_key, filter)
VALUES (:topic, :name, :queue_key, :filter)
ON CONFLICT (topic, name) DO UPDATE SET filter = excluded.filter;

-- name: has_subscription
SELECT 1 FROM {schema}.subscription WHERE topic = :topic AND name = :name;

-- name: count_subscriptions
SELECT count(*) FROM {schema}.subscription WHERE topic = :topic;

-- name: list_topics
SELECT topic.name, subscription.name, subscription.filter
  FROM {schema}.topic LEFT JOIN {schema}.subscription ON subscription.topic = topic.name
 ORDER BY topic.name COLLATE "C", subscription.name COLLATE "C";

-- name: subscriptions_of
-- A topic that nobody subscribed to is there all the same: one row, without a queue.
SELECT topic.name, subscription.filter, {queue_columns}
  FROM {schema}.topic LEFT JOIN {schema}.subscription ON subscription.topic = topic.name
                      LEFT JOIN {schema}.queue ON queue.key = subscription.queue_key
 WHERE topic.name = ANY (:names::text[])
 ORDER BY topic.name COLLATE "C", subscription.name COLLATE "C";

-- name: known_ids
SELECT message_id.queue_key, message_id.id, message_id.sequence FROM {schema}.message_id
  JOIN unnest(:queue_keys::bigint[], :ids::text[]) AS wanted (queue_key, id)
    ON message_id.queue_key = wanted.queue_key AND message_id.id = wanted.id;

-- name: forget_ids
DELETE FROM {schema}.message_id WHERE (queue_key, id) IN (
       SELECT queue_key, id FROM {schema}.message_id WHERE until <= {now} ORDER BY until LIMIT :limit
          FOR UPDATE SKIP LOCKED);

-- name: insert_messages
-- One round trip. What its sender named enters only if the name is free, or was used too long ago: of two
-- who send the same at once, one waits here for the other. In the order of the names, so that no two
-- batches wait for each other.
WITH new AS MATERIALIZED (
    SELECT place, queue_key, id, properties, session, priority, state, rank, enqueued_at, visible_at, expires_at,
           until, body, nextval('{schema}.message_sequence') AS sequence
      FROM unnest(:queue_key::bigint[], :id::text[], :properties::text[], :session::text[], :priority::bigint[],
                  :state::text[], :rank::timestamptz[], :enqueued_at::timestamptz[], :visible_at::timestamptz[],
                  :expires_at::timestamptz[], :until::timestamptz[], :body::bytea[])
           WITH ORDINALITY AS one (queue_key, id, properties, session, priority, state, rank, enqueued_at,
                                   visible_at, expires_at, until, body, place)),
named AS (
    INSERT INTO {schema}.message_id AS known (queue_key, id, sequence, until)
    SELECT queue_key, id, sequence, until FROM new WHERE until IS NOT NULL ORDER BY queue_key, id
    ON CONFLICT (queue_key, id) DO UPDATE SET sequence = excluded.sequence, until = excluded.until
     WHERE known.until <= (SELECT {now})
    RETURNING sequence)
INSERT INTO {schema}.message (sequence, queue_key, id, properties, session, priority, state, rank, enqueued_at,
                              visible_at, expires_at, body)
SELECT sequence, queue_key, id, properties, session, priority, state, rank, enqueued_at, visible_at, expires_at, body
  FROM new
 WHERE until IS NULL OR sequence IN (SELECT sequence FROM named)
 ORDER BY place
RETURNING sequence, queue_key, id;

-- name: take_turns
-- Of each session that something happened to: if nobody is before it, the first of those who are behind is
-- ready now. One that is scheduled holds up nobody before its time (then it is about to arrive, and to take its
-- turn); one that was received, and waits, does.
-- Its turn is locked (lock_turns). What another transaction is about to remove, that one passes on.
UPDATE {schema}.message SET state = 'ready' WHERE sequence IN (
       SELECT sequence FROM {schema}.message WHERE sequence IN (
              SELECT (SELECT sequence FROM {schema}.message
                       WHERE queue_key = turn.queue_key AND session = turn.session AND state <> 'dead'
                         AND state = 'behind'
                       ORDER BY sequence LIMIT 1)
                FROM (SELECT DISTINCT queue_key, session
                        FROM unnest(:queue_keys::bigint[], :sessions::text[]) AS one (queue_key, session)) AS turn
               WHERE NOT EXISTS (
                     SELECT 1 FROM {schema}.message
                      WHERE queue_key = turn.queue_key AND session = turn.session AND state <> 'dead'
                        AND state IN ('ready', 'locked', 'waiting')
                        AND (state <> 'waiting' OR delivery_count > 0 OR visible_at <= {now})))
          FOR UPDATE SKIP LOCKED)
RETURNING queue_key;

-- name: cancel_message
DELETE FROM {schema}.message
 WHERE sequence = :sequence AND queue_key = (SELECT key FROM {schema}.queue WHERE name = :queue)
   AND state = 'waiting' AND delivery_count = 0 AND visible_at > {now}
RETURNING sequence;

-- name: is_untidy
-- Whether something is due: locks that ran out, messages that need wait no longer, messages that expired.
-- The order leads to the index, whatever is believed of how many there are.
SELECT (SELECT 1 FROM {schema}.message WHERE queue_key = :key AND state = 'locked' AND visible_at <= {now}
         ORDER BY visible_at LIMIT 1) IS NOT NULL
    OR (SELECT 1 FROM {schema}.message WHERE queue_key = :key AND state = 'waiting' AND visible_at <= {now}
         ORDER BY visible_at LIMIT 1) IS NOT NULL
    OR (SELECT 1 FROM {schema}.message
         WHERE queue_key = :key AND expires_at IS NOT NULL AND expires_at <= {now} AND state <> 'locked'
         ORDER BY expires_at LIMIT 1) IS NOT NULL;

-- name: has_ready
SELECT (SELECT 1 FROM {schema}.message
         WHERE queue_key = :key AND state = 'ready' AND (expires_at IS NULL OR expires_at > {now})
         ORDER BY rank, sequence LIMIT 1) IS NOT NULL;

-- name: return_locked
-- Whose lock ran out: received again, or, if that was often enough, set aside. Where it stood in its session
-- it stands still; who was deferred is deferred again.
UPDATE {schema}.message
   SET state = CASE WHEN delivery_count >= :max_deliveries THEN 'dead' WHEN deferred THEN 'deferred' ELSE 'ready' END,
       lock_secret = NULL, visible_at = NULL,
       reason = CASE WHEN delivery_count >= :max_deliveries THEN :used_up::text END,
       detail = CASE WHEN delivery_count >= :max_deliveries THEN 'the lock ran out' END,
       dead_at = CASE WHEN delivery_count >= :max_deliveries THEN {now} END,
       expires_at = CASE WHEN delivery_count >= :max_deliveries THEN NULL ELSE expires_at END
 WHERE sequence IN (
       SELECT sequence FROM {schema}.message
        WHERE queue_key = :key AND state = 'locked' AND visible_at <= {now}
        ORDER BY visible_at LIMIT :limit
          FOR UPDATE SKIP LOCKED)
RETURNING session, state, id;

-- name: let_arrive
-- Those whose time has come. One of a session takes its turn, unless it had it before.
UPDATE {schema}.message
   SET state = CASE WHEN session IS NULL OR delivery_count > 0 THEN 'ready' ELSE 'behind' END, visible_at = NULL
 WHERE sequence IN (
       SELECT sequence FROM {schema}.message
        WHERE queue_key = :key AND state = 'waiting' AND visible_at <= {now}
        ORDER BY visible_at LIMIT :limit
          FOR UPDATE SKIP LOCKED)
RETURNING session, state;

-- name: expired_messages
SELECT sequence, session, id FROM {schema}.message
 WHERE queue_key = :key AND expires_at <= {now} AND state <> 'locked'
 ORDER BY expires_at LIMIT :limit
   FOR UPDATE SKIP LOCKED;

-- name: bury_messages
UPDATE {schema}.message
   SET state = 'dead', visible_at = NULL, lock_secret = NULL, expires_at = NULL, reason = :reason, dead_at = {now}
 WHERE sequence = ANY (:sequences::bigint[]);

-- name: drop_messages
DELETE FROM {schema}.message WHERE sequence = ANY (:sequences::bigint[]);

-- name: next_messages
-- By the order of receiving, which never changes; what another is just receiving is skipped, not waited for.
-- What expired and could not be set aside yet is passed over. The first always; others as long as those
-- before them are not too large to be handed out together.
SELECT sequence FROM (
       SELECT sequence, sum(size) OVER (ORDER BY rank, sequence) - size AS before FROM (
              SELECT sequence, rank, octet_length(body) AS size FROM {schema}.message
               WHERE queue_key = :key AND state = 'ready' AND (expires_at IS NULL OR expires_at > {now})
               ORDER BY rank, sequence LIMIT :limit
                 FOR UPDATE SKIP LOCKED) AS found) AS sized
 WHERE before < :bytes_max

-- name: lock_messages
UPDATE {schema}.message
   SET state = 'locked', lock_secret = :secret, delivery_count = delivery_count + 1,
       visible_at = {now} + :lock_time::interval
 WHERE sequence IN ({next_messages})
RETURNING {message_columns}, rank;

-- name: take_messages
-- Gone at once: whoever receives it at most once says nothing of it any more.
DELETE FROM {schema}.message
 WHERE sequence IN ({next_messages})
RETURNING {message_columns}, rank;

-- name: lock_deferred
-- Those of these numbers that are deferred, as long as they are not too large to be handed out together.
UPDATE {schema}.message
   SET state = 'locked', lock_secret = :secret, delivery_count = delivery_count + 1,
       visible_at = {now} + :lock_time::interval
 WHERE sequence IN (
       SELECT sequence FROM (
              SELECT sequence, sum(size) OVER (ORDER BY sequence) - size AS before FROM (
                     SELECT sequence, octet_length(body) AS size FROM {schema}.message
                      WHERE sequence = ANY (:sequences::bigint[]) AND queue_key = :key AND state = 'deferred'
                      ORDER BY sequence
                        FOR UPDATE SKIP LOCKED) AS found) AS sized
        WHERE before < :bytes_max)
RETURNING {message_columns}, sequence;

-- name: complete_messages
-- The key, by which the row is found; and everything by which the delivery is known. That it is locked its
-- secret tells; were the state named, the index of those that are locked would be walked for each of them.
DELETE FROM {schema}.message
 USING unnest(:sequences::bigint[], :secrets::text[], :ids::text[], :queues::text[])
       AS held (sequence, secret, id, queue)
  JOIN {schema}.queue ON queue.name = held.queue
 WHERE message.sequence = held.sequence AND message.lock_secret = held.secret AND message.id = held.id
   AND message.queue_key = queue.key AND message.visible_at > {now}
RETURNING message.sequence, message.queue_key, message.session;

-- name: settle_messages
-- Whatever is not completed: received again at once or later, or set aside. Who is deferred stays so, and no
-- longer expires.
UPDATE {schema}.message
   SET state = CASE WHEN settled.action = 'dead-letter' THEN 'dead'
                    WHEN settled.action = 'abandon' AND delivery_count >= queue.max_deliveries THEN 'dead'
                    WHEN settled.action = 'defer' OR deferred THEN 'deferred'
                    WHEN settled.action = 'abandon' AND settled.delay > interval '0' THEN 'waiting'
                    ELSE 'ready' END,
       lock_secret = NULL, deferred = deferred OR settled.action = 'defer',
       visible_at = CASE WHEN settled.action = 'dead-letter' THEN NULL
                         WHEN settled.action = 'abandon' AND delivery_count >= queue.max_deliveries THEN NULL
                         WHEN deferred THEN NULL
                         WHEN settled.action = 'abandon' AND settled.delay > interval '0'
                         THEN {now} + settled.delay END,
       delivery_count = delivery_count - (settled.action = 'release')::int,
       reason = CASE WHEN settled.action = 'dead-letter' THEN settled.reason
                     WHEN settled.action = 'abandon' AND delivery_count >= queue.max_deliveries
                     THEN :used_up::text END,
       detail = settled.detail,
       dead_at = CASE WHEN settled.action = 'dead-letter' THEN {now}
                      WHEN settled.action = 'abandon' AND delivery_count >= queue.max_deliveries THEN {now} END,
       expires_at = CASE WHEN settled.action IN ('dead-letter', 'defer') THEN NULL
                         WHEN settled.action = 'abandon' AND delivery_count >= queue.max_deliveries THEN NULL
                         ELSE expires_at END
  FROM unnest(:sequences::bigint[], :secrets::text[], :ids::text[], :queues::text[], :actions::text[],
              :delays::interval[], :reasons::text[], :details::text[])
       AS settled (sequence, secret, id, queue, action, delay, reason, detail)
  JOIN {schema}.queue ON queue.name = settled.queue
 WHERE message.sequence = settled.sequence AND message.lock_secret = settled.secret
   AND message.id = settled.id AND message.queue_key = queue.key
   AND message.visible_at > {now}
RETURNING message.sequence, message.queue_key, message.session, message.state;

-- name: renew_locks
UPDATE {schema}.message SET visible_at = {now} + queue.lock_time
  FROM unnest(:sequences::bigint[], :secrets::text[], :ids::text[], :queues::text[])
       AS held (sequence, secret, id, queue)
  JOIN {schema}.queue ON queue.name = held.queue
 WHERE message.sequence = held.sequence AND message.lock_secret = held.secret AND message.id = held.id
   AND message.queue_key = queue.key AND message.visible_at > {now}
RETURNING message.sequence, message.visible_at;

-- name: rewrite_message
-- What it holds is another from now on, for as long as it is locked and after; its lock holds for its whole time again.
UPDATE {schema}.message SET body = :body, visible_at = {now} + queue.lock_time
  FROM {schema}.queue
 WHERE message.sequence = :sequence AND message.lock_secret = :secret AND message.id = :id
   AND queue.name = :queue AND message.queue_key = queue.key AND message.visible_at > {now}
RETURNING message.visible_at;

-- name: peek_messages
-- In the order in which they would be received, then those that cannot be received now.
SELECT {message_columns} FROM (
       SELECT * FROM (SELECT 1 AS part, rank AS place, sequence FROM {schema}.message
                       WHERE queue_key = :key AND state = 'ready' ORDER BY rank, sequence LIMIT :limit) AS ready
        UNION ALL
       SELECT * FROM (SELECT 2, visible_at, sequence FROM {schema}.message
                       WHERE queue_key = :key AND state = 'locked' ORDER BY visible_at LIMIT :limit) AS locked
        UNION ALL
       SELECT * FROM (SELECT 3, visible_at, sequence FROM {schema}.message
                       WHERE queue_key = :key AND state = 'waiting' ORDER BY visible_at LIMIT :limit) AS waiting
        UNION ALL
       SELECT * FROM (SELECT 4, rank, sequence FROM {schema}.message
                       WHERE queue_key = :key AND session IS NOT NULL AND state <> 'dead' AND state = 'behind'
                       ORDER BY session, state, sequence LIMIT :limit) AS behind
        UNION ALL
       SELECT * FROM (SELECT 5, rank, sequence FROM {schema}.message
                       WHERE queue_key = :key AND state = 'deferred' ORDER BY sequence LIMIT :limit) AS deferred) AS found
 CROSS JOIN LATERAL (SELECT * FROM {schema}.message WHERE message.sequence = found.sequence OFFSET 0) AS message
 ORDER BY found.part, found.place, found.sequence LIMIT :limit;

-- name: list_dead
SELECT {message_columns} FROM {schema}.message
 WHERE queue_key = :key AND state = 'dead' AND sequence > :after
 ORDER BY sequence LIMIT :limit;

-- name: dead_of
-- What another is just putting back, or discarding, is his.
SELECT sequence FROM {schema}.message
 WHERE queue_key = :key AND state = 'dead' AND (:ids::text[] IS NULL OR id = ANY (:ids::text[]))
 ORDER BY sequence LIMIT :limit
   FOR UPDATE SKIP LOCKED;

-- name: resubmit_dead
-- As if it had been sent now: a new number, at the end of its queue.
INSERT INTO {schema}.message (queue_key, id, properties, session, priority, state, rank, enqueued_at, expires_at, body)
SELECT queue_key, id, properties, session, priority, CASE WHEN session IS NULL THEN 'ready' ELSE 'behind' END,
       {now} - priority * :ageing::interval, {now}, {now} + :ttl::interval, body
  FROM {schema}.message
 WHERE sequence = ANY (:sequences::bigint[])
 ORDER BY sequence
RETURNING sequence, session;

-- name: purge_messages
-- Whatever state they are in, each by the index that holds it.
DELETE FROM {schema}.message WHERE sequence IN (
       SELECT sequence FROM {schema}.message WHERE sequence IN (
       SELECT * FROM (SELECT sequence FROM {schema}.message
                       WHERE queue_key = :key AND state = 'ready' ORDER BY rank, sequence LIMIT :limit) AS ready
        UNION ALL
       SELECT * FROM (SELECT sequence FROM {schema}.message
                       WHERE queue_key = :key AND state = 'locked' ORDER BY visible_at LIMIT :limit) AS locked
        UNION ALL
       SELECT * FROM (SELECT sequence FROM {schema}.message
                       WHERE queue_key = :key AND state = 'waiting' ORDER BY visible_at LIMIT :limit) AS waiting
        UNION ALL
       SELECT * FROM (SELECT sequence FROM {schema}.message
                       WHERE queue_key = :key AND session IS NOT NULL AND state <> 'dead' AND state = 'behind' ORDER BY session, state, sequence LIMIT :limit) AS behind
        UNION ALL
       SELECT * FROM (SELECT sequence FROM {schema}.message
                       WHERE queue_key = :key AND state = 'deferred' ORDER BY sequence LIMIT :limit) AS deferred
        UNION ALL
       SELECT * FROM (SELECT sequence FROM {schema}.message
                       WHERE queue_key = :key AND state = 'dead' ORDER BY sequence LIMIT :limit) AS dead
       LIMIT :limit) FOR UPDATE SKIP LOCKED)
RETURNING session;

-- name: drop_subscription
DELETE FROM {schema}.subscription WHERE queue_key = :key;

-- name: drop_queue
DELETE FROM {schema}.queue WHERE key = :key;
