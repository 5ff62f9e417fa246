-- name: queue_columns
queue.key, queue.name, queue.lock_time, queue.max_deliveries, queue.dedup, queue.ttl,
queue.dead_letter_expired, queue.sessions, queue.max_messages

-- name: message_columns
message.sequence, message.id, message.body, message.properties, message.session, message.priority,
message.state, message.delivery_count, message.enqueued_at, message.visible_at, message.expires_at,
message.lock_secret, message.reason, message.detail, message.dead_at

-- name: put_queue
INSERT INTO queue (name, lock_time, max_deliveries, dedup, ttl, dead_letter_expired, sessions, max_messages,
                   created_at)
VALUES (:name, :lock_time, :max_deliveries, :dedup, :ttl, :dead_letter_expired, :sessions, :max_messages, :now)
ON CONFLICT (name) DO UPDATE
   SET lock_time = excluded.lock_time, max_deliveries = excluded.max_deliveries, dedup = excluded.dedup,
       ttl = excluded.ttl, dead_letter_expired = excluded.dead_letter_expired, sessions = excluded.sessions,
       max_messages = excluded.max_messages
RETURNING key;

-- name: queues_of
SELECT {queue_columns} FROM queue WHERE name IN (SELECT value FROM json_each(:names));

-- name: list_queues
SELECT {queue_columns} FROM queue WHERE name > :after ORDER BY name LIMIT :limit;

-- name: counts_of
-- By the index that holds each state, which the order leads to; counted no further than anybody wants to know.
SELECT (SELECT count(*) FROM (SELECT 1 FROM message
         WHERE queue_key = queue.key AND state = 'ready'
         ORDER BY rank, sequence LIMIT :counted)),
       (SELECT count(*) FROM (SELECT 1 FROM message
         WHERE queue_key = queue.key AND session IS NOT NULL AND state <> 'dead' AND state = 'behind'
         ORDER BY session, state, sequence LIMIT :counted)),
       (SELECT count(*) FROM (SELECT 1 FROM message
         WHERE queue_key = queue.key AND state = 'waiting'
         ORDER BY visible_at LIMIT :counted)),
       (SELECT count(*) FROM (SELECT 1 FROM message
         WHERE queue_key = queue.key AND state = 'locked'
         ORDER BY visible_at LIMIT :counted)),
       (SELECT count(*) FROM (SELECT 1 FROM message
         WHERE queue_key = queue.key AND state = 'deferred'
         ORDER BY sequence LIMIT :counted)),
       (SELECT count(*) FROM (SELECT 1 FROM message
         WHERE queue_key = queue.key AND state = 'dead'
         ORDER BY sequence LIMIT :counted))
  FROM queue WHERE key = :key;

-- name: levels_of
-- As far as anybody wants to know, in the order of receiving: what is beyond is less urgent than all of these.
SELECT priority, count(*), min(enqueued_at)
  FROM (SELECT priority, enqueued_at FROM message
         WHERE queue_key = :key AND state = 'ready'
         ORDER BY rank, sequence LIMIT :counted)
 GROUP BY priority ORDER BY priority;

-- name: list_sessions
-- Those of their messages that are not done, as far as anybody wants to know.
SELECT session, count(*), sum(state = 'locked'), min(enqueued_at)
  FROM (SELECT session, state, enqueued_at FROM message
         WHERE queue_key = :key AND session IS NOT NULL AND state <> 'dead' AND session > :after
         ORDER BY session, state, sequence LIMIT :counted)
 GROUP BY session ORDER BY session LIMIT :limit;

-- name: put_topic
INSERT INTO topic (name, created_at) VALUES (:name, :now) ON CONFLICT (name) DO NOTHING RETURNING name;

-- name: has_topic
SELECT 1 FROM topic WHERE name = :name;

-- name: put_subscription
INSERT INTO subscription (topic, name, queue_key, filter) VALUES (:topic, :name, :queue_key, :filter)
ON CONFLICT (topic, name) DO UPDATE SET filter = excluded.filter;

-- name: has_subscription
SELECT 1 FROM subscription WHERE topic = :topic AND name = :name;

-- name: count_subscriptions
SELECT count(*) FROM subscription WHERE topic = :topic;

-- name: list_topics
SELECT topic.name, subscription.name, subscription.filter
  FROM topic LEFT JOIN subscription ON subscription.topic = topic.name
 ORDER BY topic.name, subscription.name;

-- name: subscriptions_of
-- A topic that nobody subscribed to is there all the same: one row, without a queue.
SELECT topic.name, subscription.filter, {queue_columns}
  FROM topic LEFT JOIN subscription ON subscription.topic = topic.name
             LEFT JOIN queue ON queue.key = subscription.queue_key
 WHERE topic.name IN (SELECT value FROM json_each(:names))
 ORDER BY topic.name, subscription.name;

-- name: known_ids
-- A join, by which both columns of the key are searched for; (queue_key, id) IN (…) searches for the first.
SELECT message_id.queue_key, message_id.id, message_id.sequence
  FROM json_each(:ids) AS wanted
 CROSS JOIN message_id ON message_id.queue_key = wanted.value ->> 0 AND message_id.id = wanted.value ->> 1
 WHERE message_id.until > :now;

-- name: forget_ids
-- Up to the one that is behind so many, if there is one.
DELETE FROM message_id WHERE until <= coalesce(
       (SELECT until FROM message_id WHERE until <= :now ORDER BY until LIMIT 1 OFFSET :limit), :now);

-- name: insert_messages
INSERT INTO message (sequence, queue_key, id, properties, session, priority, state, rank, enqueued_at,
                     visible_at, expires_at, body)
VALUES {rows};

-- name: take_turns
-- Of each session that something happened to: if nobody is before it, the first of those who are behind is
-- ready now. One that is scheduled holds up nobody before its time (then it is about to arrive, and to take its
-- turn); one that was received, and waits, does.
UPDATE message SET state = 'ready' WHERE sequence IN (
       SELECT (SELECT min(sequence) FROM message
                WHERE queue_key = turn.queue_key AND session = turn.session AND state <> 'dead'
                  AND state = 'behind')
         FROM (SELECT DISTINCT value ->> 0 AS queue_key, value ->> 1 AS session FROM json_each(:turns)) AS turn
        WHERE NOT EXISTS (
              SELECT 1 FROM message
               WHERE queue_key = turn.queue_key AND session = turn.session AND state <> 'dead'
                 AND state IN ('ready', 'locked', 'waiting')
                 AND (state <> 'waiting' OR delivery_count > 0 OR visible_at <= :now)))
RETURNING queue_key;

-- name: cancel_message
DELETE FROM message
 WHERE sequence = :sequence AND queue_key = (SELECT key FROM queue WHERE name = :queue)
   AND state = 'waiting' AND delivery_count = 0 AND visible_at > :now
RETURNING sequence;

-- name: is_untidy
-- Whether something is due: locks that ran out, messages that need wait no longer, messages that expired.
-- The order leads to the index, whatever is believed of how many there are.
SELECT (SELECT 1 FROM message WHERE queue_key = :key AND state = 'locked' AND visible_at <= :now
         ORDER BY visible_at LIMIT 1) IS NOT NULL
    OR (SELECT 1 FROM message WHERE queue_key = :key AND state = 'waiting' AND visible_at <= :now
         ORDER BY visible_at LIMIT 1) IS NOT NULL
    OR (SELECT 1 FROM message
         WHERE queue_key = :key AND expires_at IS NOT NULL AND expires_at <= :now AND state <> 'locked'
         ORDER BY expires_at LIMIT 1) IS NOT NULL;

-- name: has_ready
SELECT (SELECT 1 FROM message
         WHERE queue_key = :key AND state = 'ready' AND (expires_at IS NULL OR expires_at > :now)
         ORDER BY rank, sequence LIMIT 1) IS NOT NULL;

-- name: return_locked
-- Whose lock ran out: received again, or, if that was often enough, set aside. Where it stood in its session
-- it stands still; who was deferred is deferred again.
UPDATE message
   SET state = CASE WHEN delivery_count >= :max_deliveries THEN 'dead' WHEN deferred THEN 'deferred' ELSE 'ready' END,
       lock_secret = NULL, visible_at = NULL,
       reason = CASE WHEN delivery_count >= :max_deliveries THEN :used_up END,
       detail = CASE WHEN delivery_count >= :max_deliveries THEN 'the lock ran out' END,
       dead_at = CASE WHEN delivery_count >= :max_deliveries THEN :now END,
       expires_at = CASE WHEN delivery_count >= :max_deliveries THEN NULL ELSE expires_at END
 WHERE sequence IN (
       SELECT sequence FROM message
        WHERE queue_key = :key AND state = 'locked' AND visible_at <= :now
        ORDER BY visible_at LIMIT :limit)
RETURNING session, state, id;

-- name: let_arrive
-- Those whose time has come. One of a session takes its turn, unless it had it before.
UPDATE message
   SET state = CASE WHEN session IS NULL OR delivery_count > 0 THEN 'ready' ELSE 'behind' END, visible_at = NULL
 WHERE sequence IN (
       SELECT sequence FROM message
        WHERE queue_key = :key AND state = 'waiting' AND visible_at <= :now
        ORDER BY visible_at LIMIT :limit)
RETURNING session, state;

-- name: expired_messages
SELECT sequence, session, id FROM message
 WHERE queue_key = :key AND expires_at <= :now AND state <> 'locked'
 ORDER BY expires_at LIMIT :limit;

-- name: bury_messages
UPDATE message
   SET state = 'dead', visible_at = NULL, lock_secret = NULL, expires_at = NULL, reason = :reason, dead_at = :now
 WHERE sequence IN (SELECT value FROM json_each(:sequences));

-- name: drop_messages
DELETE FROM message WHERE sequence IN (SELECT value FROM json_each(:sequences));

-- name: next_messages
-- By the order of receiving, which never changes. What expired and could not be set aside yet is passed over.
-- The first always; others as long as those before them are not too large to be handed out together.
SELECT sequence FROM (
       SELECT sequence, sum(size) OVER (ORDER BY rank, sequence) - size AS before FROM (
              SELECT sequence, rank, length(body) AS size FROM message
               WHERE queue_key = :key AND state = 'ready' AND (expires_at IS NULL OR expires_at > :now)
               ORDER BY rank, sequence LIMIT :limit))
 WHERE before < :bytes_max

-- name: lock_messages
UPDATE message
   SET state = 'locked', lock_secret = :secret, delivery_count = delivery_count + 1, visible_at = :now + :lock_time
 WHERE sequence IN ({next_messages})
RETURNING {message_columns}, rank;

-- name: take_messages
-- Gone at once: whoever receives it at most once says nothing of it any more.
DELETE FROM message
 WHERE sequence IN ({next_messages})
RETURNING {message_columns}, rank;

-- name: lock_deferred
-- Those of these numbers that are deferred, as long as they are not too large to be handed out together.
UPDATE message
   SET state = 'locked', lock_secret = :secret, delivery_count = delivery_count + 1, visible_at = :now + :lock_time
 WHERE sequence IN (
       SELECT sequence FROM (
              SELECT sequence, sum(length(body)) OVER (ORDER BY sequence) - length(body) AS before FROM message
               WHERE sequence IN (SELECT value FROM json_each(:sequences)) AND queue_key = :key
                 AND state = 'deferred')
        WHERE before < :bytes_max)
RETURNING {message_columns}, sequence;

-- name: complete_messages
-- The key first, by which the row is found; then everything by which the delivery is known. That it is locked
-- its secret tells.
DELETE FROM message
 WHERE sequence IN (SELECT value ->> 0 FROM json_each(:locks))
   AND visible_at > :now
   AND (sequence, lock_secret, id, queue_key) IN (
       SELECT value ->> 0, value ->> 1, value ->> 2, queue.key
         FROM json_each(:locks) JOIN queue ON queue.name = value ->> 3)
RETURNING sequence, queue_key, session;

-- name: settle_messages
-- Whatever is not completed: received again at once or later, or set aside. Who is deferred stays so, and no
-- longer expires.
UPDATE message
   SET state = CASE WHEN settled.action = 'dead-letter' THEN 'dead'
                    WHEN settled.action = 'abandon' AND delivery_count >= settled.max_deliveries THEN 'dead'
                    WHEN settled.action = 'defer' OR deferred THEN 'deferred'
                    WHEN settled.action = 'abandon' AND settled.delay > 0 THEN 'waiting'
                    ELSE 'ready' END,
       lock_secret = NULL, deferred = deferred OR settled.action = 'defer',
       visible_at = CASE WHEN settled.action = 'dead-letter' THEN NULL
                         WHEN settled.action = 'abandon' AND delivery_count >= settled.max_deliveries THEN NULL
                         WHEN deferred THEN NULL
                         WHEN settled.action = 'abandon' AND settled.delay > 0 THEN :now + settled.delay END,
       delivery_count = delivery_count - (settled.action = 'release'),
       reason = CASE WHEN settled.action = 'dead-letter' THEN settled.reason
                     WHEN settled.action = 'abandon' AND delivery_count >= settled.max_deliveries
                     THEN :used_up END,
       detail = settled.detail,
       dead_at = CASE WHEN settled.action = 'dead-letter' THEN :now
                      WHEN settled.action = 'abandon' AND delivery_count >= settled.max_deliveries THEN :now END,
       expires_at = CASE WHEN settled.action IN ('dead-letter', 'defer') THEN NULL
                         WHEN settled.action = 'abandon' AND delivery_count >= settled.max_deliveries THEN NULL
                         ELSE expires_at END
  FROM (SELECT value ->> 0 AS sequence, value ->> 1 AS secret, value ->> 2 AS id, queue.key AS queue_key,
               value ->> 4 AS action, value ->> 5 AS delay, value ->> 6 AS reason, value ->> 7 AS detail,
               queue.max_deliveries AS max_deliveries
          FROM json_each(:settlements) JOIN queue ON queue.name = value ->> 3) AS settled
 WHERE message.sequence = settled.sequence AND message.lock_secret = settled.secret
   AND message.id = settled.id AND message.queue_key = settled.queue_key
   AND message.visible_at > :now
RETURNING sequence, queue_key, session, state;

-- name: renew_locks
UPDATE message SET visible_at = :now + held.lock_time
  FROM (SELECT value ->> 0 AS sequence, value ->> 1 AS secret, value ->> 2 AS id, queue.key AS queue_key,
               queue.lock_time AS lock_time
          FROM json_each(:locks) JOIN queue ON queue.name = value ->> 3) AS held
 WHERE message.sequence = held.sequence AND message.lock_secret = held.secret
   AND message.id = held.id AND message.queue_key = held.queue_key
   AND message.visible_at > :now
RETURNING sequence, visible_at;

-- name: rewrite_message
-- What it holds is another from now on, for as long as it is locked and after; its lock holds for its whole time again.
UPDATE message SET body = :body, visible_at = :now + queue.lock_time
  FROM queue
 WHERE message.sequence = :sequence AND message.lock_secret = :secret AND message.id = :id
   AND queue.name = :queue AND message.queue_key = queue.key AND message.visible_at > :now
RETURNING visible_at;

-- name: peek_messages
-- In the order in which they would be received, then those that cannot be received now.
SELECT {message_columns} FROM (
       SELECT * FROM (SELECT 1 AS part, rank AS place, sequence FROM message
                       WHERE queue_key = :key AND state = 'ready' ORDER BY rank, sequence LIMIT :limit)
        UNION ALL
       SELECT * FROM (SELECT 2, visible_at, sequence FROM message
                       WHERE queue_key = :key AND state = 'locked' ORDER BY visible_at LIMIT :limit)
        UNION ALL
       SELECT * FROM (SELECT 3, visible_at, sequence FROM message
                       WHERE queue_key = :key AND state = 'waiting' ORDER BY visible_at LIMIT :limit)
        UNION ALL
       SELECT * FROM (SELECT 4, rank, sequence FROM message
                       WHERE queue_key = :key AND session IS NOT NULL AND state <> 'dead' AND state = 'behind'
                       ORDER BY session, state, sequence LIMIT :limit)
        UNION ALL
       SELECT * FROM (SELECT 5, rank, sequence FROM message
                       WHERE queue_key = :key AND state = 'deferred' ORDER BY sequence LIMIT :limit)) AS found
  JOIN message ON message.sequence = found.sequence
 ORDER BY found.part, found.place, found.sequence LIMIT :limit;

-- name: list_dead
SELECT {message_columns} FROM message
 WHERE queue_key = :key AND state = 'dead' AND sequence > :after
 ORDER BY sequence LIMIT :limit;

-- name: dead_of
SELECT sequence FROM message
 WHERE queue_key = :key AND state = 'dead'
   AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
 ORDER BY sequence LIMIT :limit;

-- name: resubmit_dead
-- As if it had been sent now: a new number, at the end of its queue.
INSERT INTO message (queue_key, id, properties, session, priority, state, rank, enqueued_at, expires_at, body)
SELECT queue_key, id, properties, session, priority, CASE WHEN session IS NULL THEN 'ready' ELSE 'behind' END,
       :now - priority * :ageing, :now, :now + :ttl, body
  FROM message
 WHERE sequence IN (SELECT value FROM json_each(:sequences))
 ORDER BY sequence
RETURNING sequence, session;

-- name: purge_messages
-- Whatever state they are in, each by the index that holds it.
DELETE FROM message WHERE sequence IN (
       SELECT * FROM (SELECT sequence FROM message
                       WHERE queue_key = :key AND state = 'ready' ORDER BY rank, sequence LIMIT :limit)
        UNION ALL
       SELECT * FROM (SELECT sequence FROM message
                       WHERE queue_key = :key AND state = 'locked' ORDER BY visible_at LIMIT :limit)
        UNION ALL
       SELECT * FROM (SELECT sequence FROM message
                       WHERE queue_key = :key AND state = 'waiting' ORDER BY visible_at LIMIT :limit)
        UNION ALL
       SELECT * FROM (SELECT sequence FROM message
                       WHERE queue_key = :key AND session IS NOT NULL AND state <> 'dead' AND state = 'behind' ORDER BY session, state, sequence LIMIT :limit)
        UNION ALL
       SELECT * FROM (SELECT sequence FROM message
                       WHERE queue_key = :key AND state = 'deferred' ORDER BY sequence LIMIT :limit)
        UNION ALL
       SELECT * FROM (SELECT sequence FROM message
                       WHERE queue_key = :key AND state = 'dead' ORDER BY sequence LIMIT :limit)
       LIMIT :limit)
RETURNING session;

-- name: drop_subscription
DELETE FROM subscription WHERE queue_key = :key;

-- name: drop_queue
DELETE FROM queue WHERE key = :key;
