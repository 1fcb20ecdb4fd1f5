-- The schema of a store in a file, and its statements by name. Each begins with a line "-- name: NAME".
-- A key is a namespace's number << 40 | a number within it. What a record holds only records.py knows.

-- name: schema
-- Written once, into an empty file. Later versions are reached by the steps "to VERSION" below, in their order.
CREATE TABLE meta (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  number INTEGER NOT NULL,
  at REAL NOT NULL,
  epoch INTEGER NOT NULL
);
INSERT INTO meta VALUES (1, 0, 0.0, 0);
CREATE TABLE namespaces (key INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE tasks (key INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE states (key INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE ended (key INTEGER PRIMARY KEY, at INTEGER NOT NULL, record BLOB NOT NULL);
CREATE INDEX ended_at ON ended (at);
CREATE TABLE stopping (key INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE hosts (key INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE agents (key INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE schedules (key INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE triggers (key INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE outbox (key INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE tokens (key INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE secrets (key INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE token_uses (key INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE operations (key INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE rules (key INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE events (key INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE output (
  key INTEGER NOT NULL,
  first INTEGER NOT NULL,
  begin INTEGER NOT NULL,
  record BLOB NOT NULL,
  PRIMARY KEY (key, first)
) WITHOUT ROWID;
CREATE TABLE output_tail (key INTEGER NOT NULL, first INTEGER NOT NULL, begin INTEGER NOT NULL, record BLOB NOT NULL);
CREATE VIEW all_output AS
SELECT key, first, begin, record FROM output UNION ALL SELECT key, first, begin, record FROM output_tail;

-- name: to 2
CREATE TABLE tokens (key INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE secrets (key INTEGER PRIMARY KEY, record BLOB NOT NULL);

-- name: to 3
CREATE TABLE token_uses (key INTEGER PRIMARY KEY, record BLOB NOT NULL);

-- name: to 4
CREATE TABLE operations (key INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE rules (key INTEGER PRIMARY KEY, record BLOB NOT NULL);

-- name: to 5
CREATE TABLE output (
  key INTEGER NOT NULL,
  first INTEGER NOT NULL,
  begin INTEGER NOT NULL,
  record BLOB NOT NULL,
  PRIMARY KEY (key, first)
) WITHOUT ROWID;
CREATE TABLE output_tail (key INTEGER NOT NULL, first INTEGER NOT NULL, begin INTEGER NOT NULL, record BLOB NOT NULL);
CREATE VIEW all_output AS
SELECT key, first, begin, record FROM output UNION ALL SELECT key, first, begin, record FROM output_tail;

-- name: to 6
-- A file of version 5 made between two releases may have it.
CREATE TABLE IF NOT EXISTS events (key INTEGER PRIMARY KEY, record BLOB NOT NULL);

-- name: read_meta
SELECT number, at, epoch FROM meta;
-- name: go_on_from
UPDATE meta SET number = ?, at = ?, epoch = ?;
-- name: write_meta
UPDATE meta SET number = ?, at = ?;
-- name: begin_epoch
UPDATE meta SET number = number + ?, epoch = ?;

-- What a commit writes.

-- name: put_namespaces
INSERT OR REPLACE INTO namespaces VALUES (?, ?);
-- name: put_tasks
INSERT OR REPLACE INTO tasks VALUES (?, ?);
-- name: put_states
INSERT OR REPLACE INTO states VALUES (?, ?);
-- name: put_ended
INSERT OR REPLACE INTO ended VALUES (?, ?, ?);
-- name: put_stopping
INSERT OR REPLACE INTO stopping VALUES (?, ?);
-- name: put_hosts
INSERT OR REPLACE INTO hosts VALUES (?, ?);
-- name: put_agents
INSERT OR REPLACE INTO agents VALUES (?, ?);
-- name: put_schedules
INSERT OR REPLACE INTO schedules VALUES (?, ?);
-- name: put_triggers
INSERT OR REPLACE INTO triggers VALUES (?, ?);
-- name: put_outbox
INSERT OR REPLACE INTO outbox VALUES (?, ?);
-- name: put_operations
INSERT OR REPLACE INTO operations VALUES (?, ?);
-- name: put_rules
INSERT OR REPLACE INTO rules VALUES (?, ?);
-- name: put_events
INSERT OR REPLACE INTO events VALUES (?, ?);
-- name: put_tokens
INSERT OR REPLACE INTO tokens VALUES (?, ?);
-- name: put_secrets
-- One that is there stays: who puts one reads it again.
INSERT OR IGNORE INTO secrets VALUES (?, ?);
-- name: put_token_uses
INSERT OR REPLACE INTO token_uses VALUES (?, ?);
-- name: remove_namespaces
DELETE FROM namespaces WHERE key = ?;
-- name: remove_tasks
DELETE FROM tasks WHERE key = ?;
-- name: remove_states
DELETE FROM states WHERE key = ?;
-- name: remove_ended
DELETE FROM ended WHERE key = ?;
-- name: remove_stopping
DELETE FROM stopping WHERE key = ?;
-- name: remove_hosts
DELETE FROM hosts WHERE key = ?;
-- name: remove_agents
DELETE FROM agents WHERE key = ?;
-- name: remove_schedules
DELETE FROM schedules WHERE key = ?;
-- name: remove_triggers
DELETE FROM triggers WHERE key = ?;
-- name: remove_outbox
DELETE FROM outbox WHERE key = ?;
-- name: remove_operations
DELETE FROM operations WHERE key = ?;
-- name: remove_rules
DELETE FROM rules WHERE key = ?;
-- name: remove_events
DELETE FROM events WHERE key = ?;
-- name: remove_tokens
DELETE FROM tokens WHERE key = ?;
-- name: remove_secrets
DELETE FROM secrets WHERE key = ?;
-- name: remove_token_uses
DELETE FROM token_uses WHERE key = ?;

-- Output, a row for what was committed at once, and steps; short rows come to the tail first (output.py).

-- name: put_output
INSERT OR REPLACE INTO output VALUES (?, ?, ?, ?);
-- name: put_output_tail
INSERT INTO output_tail VALUES (?, ?, ?, ?);
-- name: cut_output
DELETE FROM output WHERE key = ? AND first < ? AND first > 0;
-- name: cut_output_tail
DELETE FROM output_tail WHERE key = ? AND first < ? AND first > 0;
-- name: remove_output
DELETE FROM output WHERE key = ?;
-- name: remove_output_tail
DELETE FROM output_tail WHERE key = ?;
-- name: move_output_tail
INSERT OR REPLACE INTO output SELECT key, first, begin, record FROM output_tail ORDER BY key, first;
-- name: empty_output_tail
DELETE FROM output_tail;
-- name: output
-- From the last row on that does not begin after the number that follows.
SELECT key, first, begin, record FROM all_output
WHERE key = ?1 AND first >= max(
  ifnull((SELECT max(first) FROM output WHERE key = ?1 AND first BETWEEN 1 AND ?2 + 1), 0),
  ifnull((SELECT max(first) FROM output_tail WHERE key = ?1 AND first BETWEEN 1 AND ?2 + 1), 0)
)
ORDER BY first;
-- name: newest_output
SELECT key, first, begin, record FROM all_output WHERE key = ? AND first > 0 ORDER BY first DESC LIMIT 1;
-- name: output_segments
SELECT min(first), min(begin) FROM all_output WHERE key = ? AND first > 0 GROUP BY begin / ? ORDER BY 1;
-- name: output_sizes
-- From key to key, since a task may have many rows. The tail is short.
WITH RECURSIVE of_tasks(key) AS (
  SELECT min(key) FROM output WHERE key >= ?1
  UNION ALL
  SELECT (SELECT min(o.key) FROM output AS o WHERE o.key > of_tasks.key) FROM of_tasks WHERE of_tasks.key < ?2 LIMIT ?3
)
SELECT key, ifnull((
  SELECT begin + length(record) FROM output AS o WHERE o.key = of_tasks.key AND first > 0 ORDER BY first DESC LIMIT 1
) - (SELECT begin FROM output AS o WHERE o.key = of_tasks.key AND first > 0 ORDER BY first LIMIT 1), 0)
FROM of_tasks WHERE key <= ?2;
-- name: steps
-- They stand below 0, the first at -1.
SELECT key, first, begin, record FROM all_output WHERE key = ? AND first < 0 ORDER BY first DESC;
-- name: outputs
SELECT key, first, begin, record FROM all_output WHERE (key, first) >= (?, ?) ORDER BY key, first;
-- name: output_begin
SELECT begin FROM output WHERE key = ? ORDER BY first DESC LIMIT 1;
-- name: output_at
SELECT key, first FROM all_output WHERE (key, first) >= (?, ?) ORDER BY key, first LIMIT 1 OFFSET ?;
-- name: count_output
SELECT count(*) FROM all_output WHERE (key, first) >= (?, ?);
-- name: count_output_tail
SELECT count(*) FROM output_tail;

-- The rows of a table between two keys.

-- name: rows_of_namespaces
SELECT key, record FROM namespaces WHERE key BETWEEN ? AND ? ORDER BY key;
-- name: rows_of_stopping
SELECT key, record FROM stopping WHERE key BETWEEN ? AND ? ORDER BY key;
-- name: rows_of_hosts
SELECT key, record FROM hosts WHERE key BETWEEN ? AND ? ORDER BY key;
-- name: rows_of_agents
SELECT key, record FROM agents WHERE key BETWEEN ? AND ? ORDER BY key;
-- name: rows_of_schedules
SELECT key, record FROM schedules WHERE key BETWEEN ? AND ? ORDER BY key;
-- name: rows_of_triggers
SELECT key, record FROM triggers WHERE key BETWEEN ? AND ? ORDER BY key;
-- name: rows_of_outbox
SELECT key, record FROM outbox WHERE key BETWEEN ? AND ? ORDER BY key;
-- name: rows_of_operations
SELECT key, record FROM operations WHERE key BETWEEN ? AND ? ORDER BY key;
-- name: rows_of_rules
SELECT key, record FROM rules WHERE key BETWEEN ? AND ? ORDER BY key;
-- name: rows_of_events
SELECT key, record FROM events WHERE key BETWEEN ? AND ? ORDER BY key;
-- name: rows_of_tokens
SELECT key, record FROM tokens WHERE key BETWEEN ? AND ? ORDER BY key;
-- name: rows_of_secrets
SELECT key, record FROM secrets WHERE key BETWEEN ? AND ? ORDER BY key;
-- name: rows_of_token_uses
SELECT key, record FROM token_uses WHERE key BETWEEN ? AND ? ORDER BY key;

-- Tasks: key, task, state, ended, ended at. A task row that is missing, which check finds, reads as an empty record.

-- name: live_tasks
SELECT states.key, ifnull(tasks.record, x''), states.record, NULL, NULL
FROM states LEFT JOIN tasks USING (key)
WHERE states.key BETWEEN ? AND ? ORDER BY states.key;
-- name: ended_tasks
SELECT ended.key, ifnull(tasks.record, x''), NULL, ended.record, ended.at
FROM ended LEFT JOIN tasks USING (key)
WHERE (ended.at, ended.key) >= (?, ?) ORDER BY ended.at, ended.key;
-- name: ended_tasks_of
-- Those between two keys: sorted for each slice, and rare, for a file has one server that loads all.
SELECT ended.key, ifnull(tasks.record, x''), NULL, ended.record, ended.at
FROM ended LEFT JOIN tasks USING (key)
WHERE (ended.at, ended.key) >= (?, ?) AND ended.key BETWEEN ? AND ? ORDER BY ended.at, ended.key;
-- name: scan_up
SELECT tasks.key, tasks.record, states.record, ended.record, ended.at
FROM tasks LEFT JOIN states USING (key) LEFT JOIN ended USING (key)
WHERE tasks.key BETWEEN ? AND ? AND ifnull(states.key, ended.key) IS NOT NULL ORDER BY tasks.key;
-- name: scan_down
SELECT tasks.key, tasks.record, states.record, ended.record, ended.at
FROM tasks LEFT JOIN states USING (key) LEFT JOIN ended USING (key)
WHERE tasks.key BETWEEN ? AND ? AND ifnull(states.key, ended.key) IS NOT NULL ORDER BY tasks.key DESC;

-- name: ended_before
SELECT key FROM ended WHERE at < ? AND key NOT IN (SELECT value FROM json_each(?)) ORDER BY at, key LIMIT ?;

-- Keys of a namespace, to remove their rows.

-- name: keys_of_namespaces
SELECT key FROM namespaces WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?;
-- name: keys_of_tasks
SELECT key FROM tasks WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?;
-- name: keys_of_states
SELECT key FROM states WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?;
-- name: keys_of_ended
SELECT key FROM ended WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?;
-- name: keys_of_stopping
SELECT key FROM stopping WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?;
-- name: keys_of_hosts
SELECT key FROM hosts WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?;
-- name: keys_of_agents
SELECT key FROM agents WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?;
-- name: keys_of_schedules
SELECT key FROM schedules WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?;
-- name: keys_of_triggers
SELECT key FROM triggers WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?;
-- name: keys_of_outbox
SELECT key FROM outbox WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?;
-- name: keys_of_operations
SELECT key FROM operations WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?;
-- name: keys_of_rules
SELECT key FROM rules WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?;
-- name: keys_of_events
SELECT key FROM events WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?;
-- name: keys_of_output
SELECT DISTINCT key FROM all_output WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?;

-- Rows are counted in slices: how many, and the last key of the slice.

-- name: count_namespaces
SELECT count(*), max(key) FROM (SELECT key FROM namespaces WHERE key >= ? ORDER BY key LIMIT ?);
-- name: count_tasks
SELECT count(*), max(key) FROM (SELECT key FROM tasks WHERE key >= ? ORDER BY key LIMIT ?);
-- name: count_states
SELECT count(*), max(key) FROM (SELECT key FROM states WHERE key >= ? ORDER BY key LIMIT ?);
-- name: count_ended
SELECT count(*), max(key) FROM (SELECT key FROM ended WHERE key >= ? ORDER BY key LIMIT ?);
-- name: count_stopping
SELECT count(*), max(key) FROM (SELECT key FROM stopping WHERE key >= ? ORDER BY key LIMIT ?);
-- name: count_hosts
SELECT count(*), max(key) FROM (SELECT key FROM hosts WHERE key >= ? ORDER BY key LIMIT ?);
-- name: count_agents
SELECT count(*), max(key) FROM (SELECT key FROM agents WHERE key >= ? ORDER BY key LIMIT ?);
-- name: count_schedules
SELECT count(*), max(key) FROM (SELECT key FROM schedules WHERE key >= ? ORDER BY key LIMIT ?);
-- name: count_triggers
SELECT count(*), max(key) FROM (SELECT key FROM triggers WHERE key >= ? ORDER BY key LIMIT ?);
-- name: count_outbox
SELECT count(*), max(key) FROM (SELECT key FROM outbox WHERE key >= ? ORDER BY key LIMIT ?);
-- name: count_operations
SELECT count(*), max(key) FROM (SELECT key FROM operations WHERE key >= ? ORDER BY key LIMIT ?);
-- name: count_rules
SELECT count(*), max(key) FROM (SELECT key FROM rules WHERE key >= ? ORDER BY key LIMIT ?);
-- name: count_events
SELECT count(*), max(key) FROM (SELECT key FROM events WHERE key >= ? ORDER BY key LIMIT ?);
-- name: count_tokens
SELECT count(*), max(key) FROM (SELECT key FROM tokens WHERE key >= ? ORDER BY key LIMIT ?);
-- name: count_secrets
SELECT count(*), max(key) FROM (SELECT key FROM secrets WHERE key >= ? ORDER BY key LIMIT ?);
-- name: count_token_uses
SELECT count(*), max(key) FROM (SELECT key FROM token_uses WHERE key >= ? ORDER BY key LIMIT ?);

-- What must never be found, for check.

-- name: states_without_task
SELECT states.key FROM states LEFT JOIN tasks USING (key) WHERE tasks.key IS NULL ORDER BY 1;
-- name: ended_without_task
SELECT ended.key FROM ended LEFT JOIN tasks USING (key) WHERE tasks.key IS NULL ORDER BY 1;
-- name: live_and_ended
SELECT key FROM states JOIN ended USING (key) ORDER BY 1;
-- name: neither_live_nor_ended
SELECT tasks.key FROM tasks LEFT JOIN states USING (key) LEFT JOIN ended USING (key)
WHERE states.key IS NULL AND ended.key IS NULL ORDER BY 1;
-- name: output_without_task
SELECT DISTINCT key FROM all_output WHERE key NOT IN (SELECT key FROM tasks) ORDER BY 1;
-- name: without_namespace
-- Namespaces of keys that have no row, with one of their keys and its table.
WITH found (space, a_table, key) AS (
  SELECT key >> 40, 'tasks', min(key) FROM tasks GROUP BY 1
  UNION ALL SELECT key >> 40, 'states', min(key) FROM states GROUP BY 1
  UNION ALL SELECT key >> 40, 'ended', min(key) FROM ended GROUP BY 1
  UNION ALL SELECT key >> 40, 'stopping', min(key) FROM stopping GROUP BY 1
  UNION ALL SELECT key >> 40, 'hosts', min(key) FROM hosts GROUP BY 1
  UNION ALL SELECT key >> 40, 'agents', min(key) FROM agents GROUP BY 1
  UNION ALL SELECT key >> 40, 'schedules', min(key) FROM schedules GROUP BY 1
  UNION ALL SELECT key >> 40, 'triggers', min(key) FROM triggers GROUP BY 1
  UNION ALL SELECT key >> 40, 'outbox', min(key) FROM outbox GROUP BY 1
  UNION ALL SELECT key >> 40, 'operations', min(key) FROM operations GROUP BY 1
  UNION ALL SELECT key >> 40, 'rules', min(key) FROM rules GROUP BY 1
  UNION ALL SELECT key >> 40, 'events', min(key) FROM events GROUP BY 1
  UNION ALL SELECT key >> 40, 'output', min(key) FROM all_output GROUP BY 1
)
SELECT space, a_table, key FROM found WHERE space NOT IN (SELECT key FROM namespaces) ORDER BY 1, 2;
