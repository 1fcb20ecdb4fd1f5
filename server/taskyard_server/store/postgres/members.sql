-- The statements of who the replicas are and what they own, by name (shared_port.py). Times are the database's.

-- name: join
-- The level is locked, so that it is not raised meanwhile.
WITH meta AS MATERIALIZED (SELECT level FROM taskyard.meta FOR SHARE), joined AS (
  INSERT INTO taskyard.replicas AS r
  SELECT $1, $2, $3, $4, $5, $6, clock_timestamp(), clock_timestamp(), NULL FROM meta WHERE meta.level <= $4
  ON CONFLICT (instance) DO UPDATE SET renewed_at = clock_timestamp(), name = $2, address = $3, level = $4,
    version = $5, is_draining = $6
  WHERE r.died_at IS NULL
)
SELECT level, extract(epoch FROM clock_timestamp())::float8 AS at FROM meta;
-- name: renew
UPDATE taskyard.replicas SET renewed_at = clock_timestamp() WHERE instance = $1 AND died_at IS NULL
RETURNING extract(epoch FROM clock_timestamp())::float8 AS at, (SELECT level FROM taskyard.meta) AS level;
-- name: replicas
-- The living, and those that died within so many seconds; and how long each was not renewed.
SELECT instance, name, address, level, version, is_draining, extract(epoch FROM started_at)::float8,
  extract(epoch FROM renewed_at)::float8, extract(epoch FROM died_at)::float8,
  extract(epoch FROM clock_timestamp() - renewed_at)::float8
FROM taskyard.replicas WHERE died_at IS NULL OR died_at > clock_timestamp() - make_interval(secs => $1)
ORDER BY started_at, instance;
-- name: bury
-- A renewal under way has the row locked: then its outcome is looked at.
UPDATE taskyard.replicas SET died_at = clock_timestamp()
WHERE died_at IS NULL AND instance <> $1 AND renewed_at < clock_timestamp() - make_interval(secs => $2);
-- name: leave
UPDATE taskyard.replicas SET died_at = clock_timestamp() WHERE instance = $1 AND died_at IS NULL;
-- name: release_of_the_dead
-- What the dead still own, so long after, is nobody's, and keeps the time until which it was served.
UPDATE taskyard.owners AS o
SET instance = NULL, served_until = greatest(o.served_until, extract(epoch FROM r.renewed_at)::float8),
  changed_at = clock_timestamp()
FROM taskyard.replicas AS r
WHERE r.instance = o.instance AND r.died_at < clock_timestamp() - make_interval(secs => $1);
-- name: forget_the_dead
DELETE FROM taskyard.replicas AS r
WHERE r.died_at < clock_timestamp() - interval '1 day'
  AND NOT EXISTS (SELECT FROM taskyard.owners AS o WHERE o.instance = r.instance);
-- name: forget_writers
DELETE FROM taskyard.writers WHERE written_at < clock_timestamp() - interval '1 day';
-- name: has_long_dead
SELECT EXISTS (SELECT FROM taskyard.replicas WHERE died_at < clock_timestamp() - make_interval(secs => $1));
-- name: drain
UPDATE taskyard.replicas SET is_draining = $2 WHERE $1 IN (name, instance) AND died_at IS NULL RETURNING instance;
-- name: lock_level
SELECT level FROM taskyard.meta FOR UPDATE;
-- name: raise_level
UPDATE taskyard.meta SET level = greatest(level, $1)
WHERE NOT EXISTS (SELECT FROM taskyard.replicas WHERE died_at IS NULL AND level < $1) RETURNING level;

-- name: owners
SELECT ns, name, instance, term FROM taskyard.owners ORDER BY ns;
-- name: owners_since
SELECT ns, name, instance, term FROM taskyard.owners
WHERE changed_at >= to_timestamp($1::float8) - make_interval(secs => $2) ORDER BY ns;
-- name: now
SELECT extract(epoch FROM clock_timestamp())::float8;
-- name: needing_owner
SELECT ns, name, instance, term FROM taskyard.owners AS o
WHERE needs_owner AND name IS NOT NULL AND NOT EXISTS (
  SELECT FROM taskyard.replicas AS r WHERE r.instance = o.instance AND r.died_at IS NULL
)
LIMIT $1;
-- name: create
-- The number is drawn only where there is no such name, so that they last.
INSERT INTO taskyard.owners AS o
SELECT nextval('taskyard.numbers'), $1, $2, 1, 0, extract(epoch FROM clock_timestamp())::float8, false,
  clock_timestamp()
WHERE NOT EXISTS (SELECT FROM taskyard.owners WHERE name = $1)
  AND EXISTS (SELECT FROM taskyard.replicas WHERE instance = $2 AND died_at IS NULL)
ON CONFLICT (name) DO NOTHING
RETURNING o.ns, o.name, o.term, o.commit_no, o.served_until, (SELECT epoch FROM taskyard.meta);
-- name: take
-- Whoever owned it and is no more served it at the latest until its last renewal. A replica that joined after this
-- statement began is not seen, hence taken for alive.
UPDATE taskyard.owners AS o
SET instance = $2, term = o.term + 1, changed_at = clock_timestamp(),
  served_until = greatest(o.served_until, (
    SELECT extract(epoch FROM r.renewed_at)::float8 FROM taskyard.replicas AS r
    WHERE r.instance = o.instance AND r.instance <> $2
  ))
WHERE o.ns = $1 AND o.name IS NOT NULL
  AND EXISTS (SELECT FROM taskyard.replicas WHERE instance = $2 AND died_at IS NULL)
  AND (o.instance IS NULL OR o.instance = $2
    OR EXISTS (SELECT FROM taskyard.replicas AS r WHERE r.instance = o.instance AND r.died_at IS NOT NULL))
RETURNING o.ns, o.name, o.term, o.commit_no, o.served_until, (SELECT epoch FROM taskyard.meta);
-- name: release
-- A gift to one that is no more is for whoever takes it.
UPDATE taskyard.owners AS o
SET instance = (SELECT r.instance FROM taskyard.replicas AS r WHERE r.instance = $5 AND r.died_at IS NULL),
  served_until = $4, changed_at = clock_timestamp()
FROM unnest($1::bigint[], $2::bigint[]) AS f (ns, term)
WHERE o.ns = f.ns AND o.term = f.term AND o.instance = $3;
-- name: rename
UPDATE taskyard.owners SET name = $2, changed_at = clock_timestamp() WHERE ns = $1;

-- The whole store in the hands of one process: copies and restores.

-- name: living
SELECT name, extract(epoch FROM clock_timestamp() - renewed_at)::float8 FROM taskyard.replicas
WHERE died_at IS NULL ORDER BY name;
-- name: adopt
INSERT INTO taskyard.owners
SELECT f.ns, f.name, NULL, 1, m.number, m.at, f.name IS NOT NULL, clock_timestamp()
FROM unnest($1::bigint[], $2::text[]) AS f (ns, name), taskyard.meta AS m
ON CONFLICT (ns) DO NOTHING;
-- name: draw_on
SELECT setval('taskyard.numbers', greatest((SELECT max(ns) FROM taskyard.owners), 1));
-- name: begin_epoch
UPDATE taskyard.meta SET epoch = epoch + 1, number = number + $1 RETURNING epoch;
-- name: jump
-- needs_owner, so that somebody loads each of them, whose leases end by that.
UPDATE taskyard.owners AS o
SET term = o.term + $1, commit_no = o.commit_no + $1, instance = NULL, needs_owner = true,
  served_until = greatest(o.served_until, (
    SELECT extract(epoch FROM r.renewed_at)::float8 FROM taskyard.replicas AS r WHERE r.instance = o.instance
  )),
  changed_at = clock_timestamp();
-- name: bury_all
UPDATE taskyard.replicas SET died_at = clock_timestamp() WHERE died_at IS NULL;
