-- name: insert_alert
-- While somebody has yet to take up the same, it is counted there and nobody is called again.
INSERT INTO alert (kind, target, task_id, step, message, at, last_at) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (target, kind, coalesce(step, '')) WHERE acknowledged_at IS NULL
DO UPDATE SET count = count + 1, last_at = max(coalesce(last_at, at), excluded.last_at);

-- name: call
-- As above, one at a time; the answer tells whether it is new.
INSERT INTO alert (kind, target, task_id, step, message, at, last_at)
VALUES (:kind, :target, :task_id, :step, :message, :at, :at)
ON CONFLICT (target, kind, coalesce(step, '')) WHERE acknowledged_at IS NULL
DO UPDATE SET count = count + 1, last_at = max(coalesce(last_at, at), excluded.last_at)
RETURNING count = 1;

-- name: undelivered
-- Through the index of what is not told to everybody yet: in the rule a few, however many alerts are kept.
SELECT {alert_columns}, coalesce(delivery.attempt, 0)
  FROM alert INDEXED BY alert_untold
  LEFT JOIN alert_delivery AS delivery ON delivery.alert_id = alert.id AND delivery.sink = :sink
 WHERE told_at IS NULL AND at >= :since AND (delivery.sink IS NULL OR delivery.next_at <= :now)
 ORDER BY id LIMIT :limit;

-- name: put_delivery
INSERT INTO alert_delivery (alert_id, sink, attempt, next_at, error) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (alert_id, sink) DO UPDATE
   SET attempt = excluded.attempt, next_at = excluded.next_at, error = excluded.error;

-- name: tell_alerts
-- Those of which every sink has been told.
UPDATE alert SET told_at = :now
 WHERE told_at IS NULL AND id IN (SELECT value FROM json_each(:ids))
   AND NOT EXISTS (SELECT 1 FROM json_each(:sinks) AS sink
                    WHERE NOT EXISTS (SELECT 1 FROM alert_delivery AS delivery
                                       WHERE delivery.alert_id = alert.id AND delivery.sink = sink.value
                                         AND delivery.next_at IS NULL));

-- name: give_up_telling
UPDATE alert SET told_at = :now
 WHERE id IN (SELECT id FROM alert INDEXED BY alert_untold
               WHERE told_at IS NULL AND at < :since ORDER BY id LIMIT :limit);

-- name: count_alerts
SELECT count(*) FROM alert;

-- name: forget_alerts
-- First those that somebody took up, and the oldest.
DELETE FROM alert
 WHERE id IN (SELECT id FROM alert ORDER BY acknowledged_at IS NULL, id LIMIT :limit)
RETURNING id, acknowledged_at IS NULL;

-- name: forget_deliveries
DELETE FROM alert_delivery WHERE alert_id IN (SELECT value FROM json_each(:ids));

-- name: count_open_alerts
SELECT kind, count(*)
  FROM (SELECT kind FROM alert INDEXED BY alert_open WHERE acknowledged_at IS NULL LIMIT :counted)
 GROUP BY kind;
