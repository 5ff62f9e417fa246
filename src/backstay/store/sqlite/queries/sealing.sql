-- name: sealed_secrets
-- In the order in which they are sealed anew, some at a time.
SELECT sealed.job_key, sealed.place, job.uid, sealed.sealed
  FROM job_sealed_secret AS sealed CROSS JOIN job ON job.key = sealed.job_key
 WHERE (sealed.job_key, sealed.place) > (:job_key, :place)
 ORDER BY sealed.job_key, sealed.place LIMIT :limit;

-- name: put_sealed
UPDATE job_sealed_secret SET sealed = one.value ->> 2
  FROM json_each(:secrets) AS one
 WHERE job_key = one.value ->> 0 AND place = one.value ->> 1;

-- name: plain_secrets
-- As earlier releases kept them.
SELECT plain.job_key, plain.place, job.uid, plain.secret
  FROM job_secret AS plain CROSS JOIN job ON job.key = plain.job_key
 WHERE (plain.job_key, plain.place) > (:job_key, :place)
 ORDER BY plain.job_key, plain.place LIMIT :limit;

-- name: add_sealed
INSERT INTO job_sealed_secret (job_key, place, sealed)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:secrets);

-- name: forget_plain
DELETE FROM job_secret;
