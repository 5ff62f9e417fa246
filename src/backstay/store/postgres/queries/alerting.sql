-- name: insert_alert
-- While somebody has yet to take up the same, it is counted there and nobody is called again. In one order,
-- so that no two transactions wait for each other; and one row of a kind, which can be changed only once.
INSERT INTO {schema}.alert (kind, target, task_id, step, message, at, last_at, count)
SELECT kind, target, min(task_id), step, min(message), min(at), max(last_at), count(*)
  FROM unnest(:kind::text[], :target::text[], :task_id::text[], :step::text[], :message::text[],
              :at::timestamptz[], :last_at::timestamptz[])
       AS raised (kind, target, task_id, step, message, at, last_at)
 GROUP BY target, kind, step
 ORDER BY target, kind, step
ON CONFLICT (target, kind, coalesce(step, '')) WHERE acknowledged_at IS NULL
DO UPDATE SET count = alert.count + excluded.count, last_at = greatest(alert.last_at, excluded.last_at);

-- name: call
-- As above, one at a time; the answer tells whether it is new.
INSERT INTO {schema}.alert (kind, target, task_id, step, message, at, last_at)
VALUES (:kind, :target, :task_id, :step, :message, :at, :at)
ON CONFLICT (target, kind, coalesce(step, '')) WHERE acknowledged_at IS NULL
DO UPDATE SET count = alert.count + 1, last_at = greatest(alert.last_at, excluded.last_at)
RETURNING count = 1;

-- name: undelivered
-- Through the index of what is not told to everybody yet: in the rule a few, however many alerts are kept.
SELECT {alert_columns}, coalesce(delivery.attempt, 0)
  FROM {schema}.alert
  LEFT JOIN {schema}.alert_delivery AS delivery ON delivery.alert_id = alert.id AND delivery.sink = :sink
 WHERE told_at IS NULL AND at >= :since AND (delivery.sink IS NULL OR delivery.next_at <= :now)
 ORDER BY id LIMIT :limit;

-- name: put_delivery
INSERT INTO {schema}.alert_delivery (alert_id, sink, attempt, next_at, error)
SELECT * FROM unnest(:alert_id::bigint[], :sink::text[], :attempt::integer[], :next_at::timestamptz[],
                     :error::text[])
ON CONFLICT (alert_id, sink) DO UPDATE
   SET attempt = excluded.attempt, next_at = excluded.next_at, error = excluded.error;

-- name: tell_alerts
-- Those of which every sink has been told.
UPDATE {schema}.alert SET told_at = :now
 WHERE told_at IS NULL AND id = ANY (:ids::bigint[])
   AND NOT EXISTS (SELECT 1 FROM unnest(:sinks::text[]) AS wanted (sink)
                    WHERE NOT EXISTS (SELECT 1 FROM {schema}.alert_delivery AS delivery
                                       WHERE delivery.alert_id = alert.id AND delivery.sink = wanted.sink
                                         AND delivery.next_at IS NULL));

-- name: give_up_telling
UPDATE {schema}.alert SET told_at = :now
 WHERE id IN (SELECT id FROM {schema}.alert WHERE told_at IS NULL AND at < :since ORDER BY id LIMIT :limit)
RETURNING id;

-- name: count_alerts
SELECT count(*) FROM {schema}.alert;

-- name: forget_alerts
-- First those that somebody took up, and the oldest.
DELETE FROM {schema}.alert
 WHERE id IN (SELECT id FROM {schema}.alert ORDER BY acknowledged_at IS NULL, id LIMIT :limit)
RETURNING id, acknowledged_at IS NULL;

-- name: forget_deliveries
DELETE FROM {schema}.alert_delivery WHERE alert_id = ANY (:ids::bigint[]);

-- name: count_open_alerts
SELECT kind, count(*)
  FROM (SELECT kind FROM {schema}.alert WHERE acknowledged_at IS NULL LIMIT :counted) AS open
 GROUP BY kind;
