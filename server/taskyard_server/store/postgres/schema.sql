-- The schema of a store in PostgreSQL, and its statements by name. Each begins with a line "-- name: NAME".
-- A key is a namespace's number << 40 | a number within it. What a record holds only records.py knows.
-- Names are written in full, so that no search path leads elsewhere.

-- name: schema
-- Written once. Later versions are reached by the steps "to VERSION" below, in their order, a transaction each; one
-- that is named "to VERSION concurrently" is a single statement outside of transactions, which may be repeated.
CREATE TABLE taskyard.meta (
  id integer PRIMARY KEY CHECK (id = 1),
  version integer NOT NULL,
  level integer NOT NULL DEFAULT 0,
  number bigint NOT NULL DEFAULT 0,
  at double precision NOT NULL DEFAULT 0,
  epoch bigint NOT NULL DEFAULT 0
);
INSERT INTO taskyard.meta (id, version) VALUES (1, 0);
-- Rows that change in place keep room on their page, so that no index is written for them.
CREATE TABLE taskyard.namespaces (key bigint PRIMARY KEY, record bytea NOT NULL) WITH (fillfactor = 50);
CREATE TABLE taskyard.tasks (key bigint PRIMARY KEY, record bytea NOT NULL);
CREATE TABLE taskyard.states (key bigint PRIMARY KEY, record bytea NOT NULL) WITH (fillfactor = 70);
CREATE TABLE taskyard.ended (key bigint PRIMARY KEY, at bigint NOT NULL, record bytea NOT NULL);
CREATE INDEX ended_at ON taskyard.ended (at, key);
CREATE INDEX ended_of ON taskyard.ended ((key >> 40), at, key);
CREATE TABLE taskyard.stopping (key bigint PRIMARY KEY, record bytea NOT NULL);
CREATE TABLE taskyard.hosts (key bigint PRIMARY KEY, record bytea NOT NULL) WITH (fillfactor = 70);
CREATE TABLE taskyard.agents (key bigint PRIMARY KEY, record bytea NOT NULL) WITH (fillfactor = 70);
CREATE TABLE taskyard.schedules (key bigint PRIMARY KEY, record bytea NOT NULL) WITH (fillfactor = 70);
CREATE TABLE taskyard.triggers (key bigint PRIMARY KEY, record bytea NOT NULL) WITH (fillfactor = 70);
CREATE TABLE taskyard.outbox (key bigint PRIMARY KEY, record bytea NOT NULL);
CREATE TABLE taskyard.tokens (key bigint PRIMARY KEY, record bytea NOT NULL);
CREATE TABLE taskyard.secrets (key bigint PRIMARY KEY, record bytea NOT NULL);
CREATE TABLE taskyard.token_uses (key bigint PRIMARY KEY, record bytea NOT NULL) WITH (fillfactor = 50);
CREATE TABLE taskyard.operations (key bigint PRIMARY KEY, record bytea NOT NULL) WITH (fillfactor = 50);
CREATE TABLE taskyard.rules (key bigint PRIMARY KEY, record bytea NOT NULL);
CREATE TABLE taskyard.events (key bigint PRIMARY KEY, record bytea NOT NULL);
CREATE TABLE taskyard.replicas (
  instance text PRIMARY KEY,
  name text NOT NULL,
  address text,
  level integer NOT NULL,
  version text NOT NULL,
  is_draining boolean NOT NULL,
  started_at timestamptz NOT NULL,
  renewed_at timestamptz NOT NULL,
  died_at timestamptz
) WITH (fillfactor = 50);
CREATE TABLE taskyard.owners (
  ns bigint PRIMARY KEY CHECK (ns BETWEEN 0 AND 8388607),
  name text UNIQUE,
  instance text REFERENCES taskyard.replicas (instance),
  term bigint NOT NULL,
  commit_no bigint NOT NULL,
  served_until double precision NOT NULL,
  needs_owner boolean NOT NULL,
  changed_at timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX owners_instance ON taskyard.owners (instance);
CREATE INDEX owners_changed_at ON taskyard.owners (changed_at);
CREATE SEQUENCE taskyard.numbers MINVALUE 1 MAXVALUE 8388607;
-- Who writes rows that no namespace owns, and how far it has come.
CREATE TABLE taskyard.writers (
  writer text PRIMARY KEY,
  number bigint NOT NULL,
  written_at timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE FUNCTION taskyard.tell() RETURNS trigger LANGUAGE plpgsql AS
$tell$BEGIN PERFORM pg_catalog.pg_notify('taskyard', coalesce(TG_ARGV[0], '')); RETURN NULL; END$tell$;
CREATE TRIGGER owners_change AFTER INSERT OR UPDATE OF instance, name ON taskyard.owners
  FOR EACH STATEMENT EXECUTE FUNCTION taskyard.tell();
CREATE TRIGGER replicas_change AFTER INSERT OR UPDATE OF died_at, is_draining ON taskyard.replicas
  FOR EACH STATEMENT EXECUTE FUNCTION taskyard.tell();
CREATE TRIGGER tokens_change AFTER INSERT OR UPDATE OR DELETE ON taskyard.tokens
  FOR EACH STATEMENT EXECUTE FUNCTION taskyard.tell('tokens');
CREATE TABLE taskyard.output (
  key bigint NOT NULL,
  first bigint NOT NULL,
  begin bigint NOT NULL,
  record bytea NOT NULL,
  PRIMARY KEY (key, first)
);
-- Output goes with its task, also where a replica removes it that does not know of output, or may not remove it.
CREATE FUNCTION taskyard.remove_output() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
AS $remove$BEGIN
  DELETE FROM taskyard.output WHERE key = ANY (ARRAY(SELECT gone.key FROM gone));
  RETURN NULL;
END$remove$;
CREATE TRIGGER tasks_remove AFTER DELETE ON taskyard.tasks REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION taskyard.remove_output();

-- name: to 2
CREATE TABLE taskyard.operations (key bigint PRIMARY KEY, record bytea NOT NULL) WITH (fillfactor = 50);
CREATE TABLE taskyard.rules (key bigint PRIMARY KEY, record bytea NOT NULL);

-- name: to 3
CREATE TABLE taskyard.output (
  key bigint NOT NULL,
  first bigint NOT NULL,
  begin bigint NOT NULL,
  record bytea NOT NULL,
  PRIMARY KEY (key, first)
);
-- Output goes with its task, also where a replica removes it that does not know of output, or may not remove it.
CREATE FUNCTION taskyard.remove_output() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog
AS $remove$BEGIN
  DELETE FROM taskyard.output WHERE key = ANY (ARRAY(SELECT gone.key FROM gone));
  RETURN NULL;
END$remove$;
CREATE TRIGGER tasks_remove AFTER DELETE ON taskyard.tasks REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION taskyard.remove_output();

-- name: to 4
-- A database of version 3 made between two releases may have it.
CREATE TABLE IF NOT EXISTS taskyard.events (key bigint PRIMARY KEY, record bytea NOT NULL);

-- The schema's version.

-- name: has_schema
-- Not to_regnamespace, which may answer from what the session saw before it waited for others.
SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'taskyard');
-- name: has_meta
SELECT EXISTS (
  SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  WHERE n.nspname = 'taskyard' AND c.relname = 'meta'
);
-- name: make_schema
CREATE SCHEMA taskyard;
-- name: exclude_others
-- Of a migration: until the transaction ends.
SELECT pg_advisory_xact_lock(1413829202);
-- name: try_alone
SELECT pg_try_advisory_lock(1413829203);
-- name: end_alone
SELECT pg_advisory_unlock(1413829203);
-- name: read_version
SELECT version FROM taskyard.meta;
-- name: formats
SELECT version, level FROM taskyard.meta;
-- name: may_make
-- The schema, where there is none; else tables in it.
SELECT coalesce(
  (SELECT pg_catalog.pg_has_role(nspowner, 'USAGE') OR pg_catalog.has_schema_privilege(oid, 'CREATE')
   FROM pg_catalog.pg_namespace WHERE nspname = 'taskyard'),
  pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')
);
-- name: may_use
-- Every table. Rights of a schema come first, without which those of its tables are of no use.
SELECT pg_catalog.has_schema_privilege('taskyard', 'USAGE') AND bool_and(
  pg_catalog.has_table_privilege(c.oid, 'SELECT') AND pg_catalog.has_table_privilege(c.oid, 'INSERT')
  AND pg_catalog.has_table_privilege(c.oid, 'UPDATE') AND pg_catalog.has_table_privilege(c.oid, 'DELETE')
)
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = 'taskyard' AND c.relkind IN ('r', 'p');
-- name: free_connections
SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
  - (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend')::int;
-- name: write_version
UPDATE taskyard.meta SET version = $1;

-- name: session
-- What a database or a role may set otherwise for its sessions.
SET default_transaction_isolation = 'read committed'; SET statement_timeout = 0; SET lock_timeout = 0; SET jit = off;
SET idle_session_timeout = 0; SET client_min_messages = warning;

-- name: safety
SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
  (SELECT count(*) FROM pg_catalog.pg_stat_replication);

-- The numbers of the whole store.

-- name: read_meta
SELECT number, at, epoch FROM taskyard.meta;
-- name: figures
-- The last commit of all, where replicas count theirs by namespace.
SELECT greatest(m.number, (SELECT max(commit_no) FROM taskyard.owners)),
  greatest(m.at, (SELECT max(served_until) FROM taskyard.owners),
    (SELECT max(extract(epoch FROM r.renewed_at))::float8 FROM taskyard.replicas AS r
     WHERE EXISTS (SELECT FROM taskyard.owners AS o WHERE o.instance = r.instance))),
  m.epoch, m.version
FROM taskyard.meta AS m;
-- name: go_on_from
UPDATE taskyard.meta SET number = $1, at = $2, epoch = $3
WHERE ((number, at, epoch) = ($1, $2, $3) OR number = 0) AND NOT EXISTS (SELECT FROM taskyard.owners) RETURNING id;
-- name: used_bytes
SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_catalog.pg_class
WHERE relnamespace = to_regnamespace('taskyard') AND relkind = 'r';

-- What a commit writes: one statement of the parts that it needs (postgres_commit.py).

-- name: fence
-- The namespaces that are owned under these terms, each at the number before.
UPDATE taskyard.owners AS o SET commit_no = f.number, needs_owner = f.needs_owner
FROM unnest({spaces}::bigint[], {terms}::bigint[], {numbers}::bigint[], {needs}::boolean[])
  AS f (ns, term, number, needs_owner)
WHERE o.ns = f.ns AND o.term = f.term AND o.instance = {instance}::text AND o.commit_no = f.number - 1
RETURNING o.ns
-- name: fence_whole
UPDATE taskyard.meta SET number = {number}::bigint, at = {at}::float8
WHERE number = {number}::bigint - 1 AND NOT EXISTS (SELECT FROM taskyard.replicas WHERE died_at IS NULL)
RETURNING 0::bigint AS ns
-- name: unfenced
-- For rows without a fence: nothing that this writer sent before, and that comes late, undoes what it sent later.
INSERT INTO taskyard.writers AS w VALUES ({writer}::text, {write_no}::bigint, clock_timestamp())
ON CONFLICT (writer) DO UPDATE SET number = excluded.number, written_at = excluded.written_at
WHERE w.number < excluded.number RETURNING -1::bigint AS ns
-- name: remove
DELETE FROM taskyard.{table} AS x WHERE x.key = ANY ({keys}::bigint[]) AND {right}
-- name: put
INSERT INTO taskyard.{table} (key, record)
SELECT x.key, x.record FROM unnest({keys}::bigint[], {records}::bytea[]) AS x (key, record) WHERE {right}
ON CONFLICT (key) DO UPDATE SET record = excluded.record
-- name: put_new
INSERT INTO taskyard.{table} (key, record)
SELECT x.key, x.record FROM unnest({keys}::bigint[], {records}::bytea[]) AS x (key, record) WHERE {right}
ON CONFLICT (key) DO NOTHING
-- name: put_ended
INSERT INTO taskyard.ended (key, at, record)
SELECT x.key, x.at, x.record FROM unnest({keys}::bigint[], {ats}::bigint[], {records}::bytea[]) AS x (key, at, record)
WHERE {right}
ON CONFLICT (key) DO UPDATE SET at = excluded.at, record = excluded.record
-- name: cut_output
DELETE FROM taskyard.output AS x USING unnest({keys}::bigint[], {befores}::bigint[]) AS f (key, before)
WHERE x.key = f.key AND x.first BETWEEN 1 AND f.before - 1 AND {right}
-- name: put_output
INSERT INTO taskyard.output (key, first, begin, record)
SELECT x.key, x.first, x.begin, x.record
FROM unnest({keys}::bigint[], {firsts}::bigint[], {begins}::bigint[], {records}::bytea[]) AS x (key, first, begin, record)
WHERE {right}
ON CONFLICT (key, first) DO UPDATE SET begin = excluded.begin, record = excluded.record

-- name: look
-- How far namespaces have come that are owned under these terms. It writes, so that whoever has the answer knows that
-- what it saw is as durable as a commit: one whose wait for standbys was cut off is there before it is safe.
UPDATE taskyard.owners AS o SET commit_no = o.commit_no
FROM unnest($1::bigint[], $2::bigint[]) AS f (ns, term)
WHERE o.ns = f.ns AND o.term = f.term AND o.instance = $3 RETURNING o.ns, o.commit_no;

-- name: at_once
-- Of the tasks that were found the first, so many that they have no more output than so many bytes; one at least.
SELECT key FROM (
  SELECT f.key, sum(coalesce(o.begin, 0)) OVER (ORDER BY f.at, f.key) - coalesce(o.begin, 0) AS size_before
  FROM found AS f LEFT JOIN LATERAL (
    SELECT begin FROM taskyard.output WHERE key = f.key ORDER BY first DESC LIMIT 1
  ) AS o ON true
) AS sized WHERE size_before < {bytes}
-- name: forget
-- Only of namespaces that are ours or nobody's, and that stay so until this is done: their owner may be about to
-- let a task go on. Of those of nobody in which tasks live it is not known what these need. Those that are being
-- committed to are left for later.
WITH found AS (
  SELECT e.key, e.at FROM taskyard.ended AS e
  WHERE e.at < $1 AND NOT e.key = ANY ($3) AND e.key >> 40 IN (
    SELECT o.ns FROM taskyard.owners AS o WHERE o.instance = $4 OR (o.instance IS NULL AND NOT EXISTS (
      SELECT FROM taskyard.states AS s WHERE s.key BETWEEN o.ns << 40 AND (o.ns << 40) + 1099511627775
    ))
  )
  ORDER BY e.at, e.key LIMIT $2
), old AS MATERIALIZED ({at_once}), fenced AS MATERIALIZED (
  SELECT ns FROM taskyard.owners
  WHERE (instance IS NULL OR instance = $4) AND ns IN (SELECT key >> 40 FROM old) FOR SHARE SKIP LOCKED
), gone AS (
  DELETE FROM taskyard.ended AS e USING old WHERE e.key = old.key AND e.key >> 40 IN (SELECT ns FROM fenced)
  RETURNING e.key
), tasks AS (
  DELETE FROM taskyard.tasks AS t USING gone WHERE t.key = gone.key
)
SELECT count(*) FROM gone;
-- name: remove_owner
DELETE FROM taskyard.owners WHERE ns = $1 AND name IS NULL;
-- name: remove_tasks_of
WITH found AS (
  SELECT key, key AS at FROM taskyard.tasks WHERE key BETWEEN $1 AND $2 ORDER BY key LIMIT $3
), gone AS (
  DELETE FROM taskyard.tasks WHERE key = ANY (ARRAY({at_once})) RETURNING key
), states AS (
  DELETE FROM taskyard.states AS s USING gone WHERE s.key = gone.key
), ended AS (
  DELETE FROM taskyard.ended AS e USING gone WHERE e.key = gone.key
)
SELECT count(*) FROM gone;
-- name: remove_rows_of
WITH gone AS (
  DELETE FROM taskyard.{table} WHERE key = ANY (ARRAY(
    SELECT key FROM taskyard.{table} WHERE key BETWEEN $1 AND $2 LIMIT $3
  )) RETURNING key
)
SELECT count(*) FROM gone;
-- name: remove_output_of
WITH gone AS (
  DELETE FROM taskyard.output WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM taskyard.output WHERE key BETWEEN $1 AND $2 LIMIT $3
  )) RETURNING key
)
SELECT count(*) FROM gone;
-- name: forget_whole
WITH found AS (
  SELECT key, at FROM taskyard.ended WHERE at < $1 AND NOT key = ANY ($3) ORDER BY at, key LIMIT $2
), gone AS (
  DELETE FROM taskyard.ended WHERE key = ANY (ARRAY({at_once}))
    AND NOT EXISTS (SELECT FROM taskyard.replicas WHERE died_at IS NULL) RETURNING key
), tasks AS (
  DELETE FROM taskyard.tasks AS t USING gone WHERE t.key = gone.key
)
SELECT count(*) FROM gone;

-- Reads in slices: up to so many rows, fewer if they are large. A task row is looked up for each row of a slice.

-- name: rows_of
SELECT key, record FROM (
  SELECT key, record, sum(octet_length(record)) OVER (ORDER BY key) - octet_length(record) AS size_before
  FROM (SELECT key, record FROM taskyard.{table} WHERE key BETWEEN $1 AND $2 ORDER BY key LIMIT $3) AS slice
) AS sized WHERE size_before < $4 ORDER BY key;
-- name: live_tasks
SELECT key, task, state, NULL, NULL FROM (
  SELECT s.key, coalesce(t.record, '') AS task, s.record AS state,
    sum(octet_length(s.record) + coalesce(octet_length(t.record), 0)) OVER (ORDER BY s.key)
      - octet_length(s.record) - coalesce(octet_length(t.record), 0) AS size_before
  FROM (SELECT key, record FROM taskyard.states WHERE key BETWEEN $1 AND $2 ORDER BY key LIMIT $3) AS s
  LEFT JOIN LATERAL (SELECT record FROM taskyard.tasks WHERE key = s.key OFFSET 0) AS t ON true
) AS sized WHERE size_before < $4 ORDER BY key;
-- name: ended_tasks
SELECT key, task, NULL, ended, at FROM (
  SELECT e.key, coalesce(t.record, '') AS task, e.record AS ended, e.at,
    sum(octet_length(e.record) + coalesce(octet_length(t.record), 0)) OVER (ORDER BY e.at, e.key)
      - octet_length(e.record) - coalesce(octet_length(t.record), 0) AS size_before
  FROM (
    SELECT key, at, record FROM taskyard.ended
    WHERE {of_space} AND (at, key) >= ($1::bigint, $2::bigint) ORDER BY at, key LIMIT $3
  ) AS e
  LEFT JOIN LATERAL (SELECT record FROM taskyard.tasks WHERE key = e.key OFFSET 0) AS t ON true
) AS sized WHERE size_before < $4 ORDER BY at, key;
-- name: scan
SELECT key, task, state, ended, at FROM (
  SELECT t.key, t.record AS task, s.record AS state, e.record AS ended, e.at,
    sum(octet_length(t.record) + coalesce(octet_length(s.record), 0) + coalesce(octet_length(e.record), 0))
      OVER (ORDER BY t.key {order})
      - octet_length(t.record) - coalesce(octet_length(s.record), 0) - coalesce(octet_length(e.record), 0)
      AS size_before
  FROM (SELECT key, record FROM taskyard.tasks WHERE key BETWEEN $1 AND $2 ORDER BY key {order} LIMIT $3) AS t
  LEFT JOIN LATERAL (SELECT record FROM taskyard.states WHERE key = t.key OFFSET 0) AS s ON true
  LEFT JOIN LATERAL (SELECT record, at FROM taskyard.ended WHERE key = t.key OFFSET 0) AS e ON true
) AS sized WHERE size_before < $4 ORDER BY key {order};
-- name: seek
-- Up to $5 of $3 rows, of which the last one and their number stand in each row; a row of nulls and these if none will do.
WITH looked AS MATERIALIZED (
  SELECT t.key, t.record AS task, s.record AS state, e.record AS ended, e.at
  FROM (SELECT key, record FROM taskyard.tasks WHERE key BETWEEN $1 AND $2 ORDER BY key {order} LIMIT $3) AS t
  LEFT JOIN LATERAL (SELECT record FROM taskyard.states WHERE key = t.key OFFSET 0) AS s ON true
  LEFT JOIN LATERAL (SELECT record, at FROM taskyard.ended WHERE key = t.key OFFSET 0) AS e ON true
), sized AS (
  SELECT key, task, state, ended, at,
    sum(octet_length(task) + coalesce(octet_length(state), 0) + coalesce(octet_length(ended), 0))
      OVER (ORDER BY key {order})
      - octet_length(task) - coalesce(octet_length(state), 0) - coalesce(octet_length(ended), 0) AS size_before
  FROM looked WHERE {conditions}
)
SELECT f.key, f.task, f.state, f.ended, f.at, l.looked_at, l.last
FROM (SELECT count(*) AS looked_at, {last}(key) AS last FROM looked) AS l
LEFT JOIN (SELECT * FROM sized WHERE size_before < $4 ORDER BY key {order} LIMIT $5) AS f ON true ORDER BY f.key {order};
-- name: output
-- From the last row on that does not begin after $2, but after $3; the bytes are those before a row.
SELECT key, first, begin, record FROM (
  SELECT *, sum(octet_length(record)) OVER (ORDER BY first) - octet_length(record) AS size_before FROM (
    SELECT * FROM taskyard.output
    WHERE key = $1 AND first > $3
      AND first >= coalesce((SELECT max(first) FROM taskyard.output WHERE key = $1 AND first BETWEEN 1 AND $2), 0)
    ORDER BY first LIMIT $4
  ) AS slice
) AS sized WHERE size_before <= $5 ORDER BY first;
-- name: output_state
SELECT n.key, n.first, n.begin, n.record, s.firsts, s.begins
FROM (SELECT * FROM taskyard.output WHERE key = $1 AND first > 0 ORDER BY first DESC LIMIT 1) AS n, (
  SELECT array_agg(first ORDER BY first) AS firsts, array_agg(begin ORDER BY first) AS begins FROM (
    SELECT min(first) AS first, min(begin) AS begin FROM taskyard.output
    WHERE key = $1 AND first > 0 GROUP BY begin / $2
  ) AS segments
) AS s;
-- name: output_sizes
-- From key to key, since a task may have many rows.
WITH RECURSIVE of_tasks AS (
  (SELECT key FROM taskyard.output WHERE key >= $1 ORDER BY key LIMIT 1)
  UNION ALL
  SELECT (SELECT o.key FROM taskyard.output AS o WHERE o.key > t.key ORDER BY o.key LIMIT 1)
  FROM of_tasks AS t WHERE t.key < $2
), slice AS (SELECT key FROM of_tasks WHERE key <= $2 LIMIT $3)
SELECT s.key, coalesce((
  SELECT o.begin + octet_length(o.record) FROM taskyard.output AS o
  WHERE o.key = s.key AND o.first > 0 ORDER BY o.first DESC LIMIT 1
) - (SELECT o.begin FROM taskyard.output AS o WHERE o.key = s.key AND o.first > 0 ORDER BY o.first LIMIT 1), 0)
FROM slice AS s;
-- name: steps
-- They stand below 0, the first at -1.
SELECT key, first, begin, record FROM taskyard.output WHERE key = $1 AND first < 0 ORDER BY first DESC;
-- name: outputs
SELECT key, first, begin, record FROM (
  SELECT *, sum(octet_length(record)) OVER (ORDER BY key, first) - octet_length(record) AS size_before FROM (
    SELECT * FROM taskyard.output WHERE (key, first) >= ($1::bigint, $2::bigint) ORDER BY key, first LIMIT $3
  ) AS slice
) AS sized WHERE size_before < $4 ORDER BY key, first;
-- name: count
SELECT count(*) FROM taskyard.{table};

-- What must never be found, for check.

-- name: states_without_task
SELECT key FROM taskyard.states LEFT JOIN taskyard.tasks USING (key) WHERE tasks.key IS NULL ORDER BY 1;
-- name: ended_without_task
SELECT key FROM taskyard.ended LEFT JOIN taskyard.tasks USING (key) WHERE tasks.key IS NULL ORDER BY 1;
-- name: live_and_ended
SELECT key FROM taskyard.states JOIN taskyard.ended USING (key) ORDER BY 1;
-- name: neither_live_nor_ended
SELECT key FROM taskyard.tasks LEFT JOIN taskyard.states USING (key) LEFT JOIN taskyard.ended USING (key)
WHERE states.key IS NULL AND ended.key IS NULL ORDER BY 1;
-- name: output_without_task
SELECT DISTINCT key FROM taskyard.output WHERE key NOT IN (SELECT key FROM taskyard.tasks) ORDER BY 1;
-- name: without_namespace
-- Namespaces of keys that have no row, with one of their keys and its table.
WITH found (space, a_table, key) AS (
  SELECT key >> 40, 'tasks', min(key) FROM taskyard.tasks GROUP BY 1
  UNION ALL SELECT key >> 40, 'states', min(key) FROM taskyard.states GROUP BY 1
  UNION ALL SELECT key >> 40, 'ended', min(key) FROM taskyard.ended GROUP BY 1
  UNION ALL SELECT key >> 40, 'stopping', min(key) FROM taskyard.stopping GROUP BY 1
  UNION ALL SELECT key >> 40, 'hosts', min(key) FROM taskyard.hosts GROUP BY 1
  UNION ALL SELECT key >> 40, 'agents', min(key) FROM taskyard.agents GROUP BY 1
  UNION ALL SELECT key >> 40, 'schedules', min(key) FROM taskyard.schedules GROUP BY 1
  UNION ALL SELECT key >> 40, 'triggers', min(key) FROM taskyard.triggers GROUP BY 1
  UNION ALL SELECT key >> 40, 'outbox', min(key) FROM taskyard.outbox GROUP BY 1
  UNION ALL SELECT key >> 40, 'operations', min(key) FROM taskyard.operations GROUP BY 1
  UNION ALL SELECT key >> 40, 'rules', min(key) FROM taskyard.rules GROUP BY 1
  UNION ALL SELECT key >> 40, 'events', min(key) FROM taskyard.events GROUP BY 1
  UNION ALL SELECT key >> 40, 'output', min(key) FROM taskyard.output GROUP BY 1
)
SELECT space, a_table, key FROM found WHERE space NOT IN (SELECT key FROM taskyard.namespaces) ORDER BY 1, 2;
-- name: without_owner
SELECT key FROM taskyard.namespaces
WHERE key NOT IN (SELECT ns FROM taskyard.owners) AND EXISTS (SELECT FROM taskyard.owners) ORDER BY 1;
