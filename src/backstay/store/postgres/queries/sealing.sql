-- name: sealed_secrets
-- In the order in which they are sealed anew, some at a time. Locked: nobody writes another meanwhile.
SELECT sealed.job_key, sealed.place, job.uid, sealed.sealed
  FROM {schema}.job_sealed_secret AS sealed JOIN {schema}.job ON job.key = sealed.job_key
 WHERE (sealed.job_key, sealed.place) > (:job_key::bigint, :place::text)
 ORDER BY sealed.job_key, sealed.place LIMIT :limit
   FOR UPDATE OF sealed;

-- name: put_sealed
UPDATE {schema}.job_sealed_secret AS kept SET sealed = one.sealed
  FROM unnest(:job_key::bigint[], :place::text[], :sealed::text[]) AS one (job_key, place, sealed)
 WHERE kept.job_key = one.job_key AND kept.place = one.place;

-- name: plain_secrets
-- As earlier releases kept them.
SELECT plain.job_key, plain.place, job.uid, plain.secret
  FROM {schema}.job_secret AS plain JOIN {schema}.job ON job.key = plain.job_key
 WHERE (plain.job_key, plain.place) > (:job_key::bigint, :place::text)
 ORDER BY plain.job_key, plain.place LIMIT :limit;

-- name: add_sealed
INSERT INTO {schema}.job_sealed_secret (job_key, place, sealed)
SELECT * FROM unnest(:job_key::bigint[], :place::text[], :sealed::text[]);

-- name: forget_plain
-- Unlike deleted rows, which wait for a vacuum, it leaves nothing in the table's file.
TRUNCATE {schema}.job_secret;
