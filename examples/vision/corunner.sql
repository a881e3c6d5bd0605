-- A best-effort co-runner: an unmodified sqlite3 that builds a table with an index, then joins, groups and sorts it.
-- Run: sqlite3 :memory: ".read corunner.sql"
-- Values come from a multiplicative congruential generator (x' = 16807 x mod 2^31 - 1, Park and Miller 1988), so every run
-- does the same work and prints the same lines. The table and its index take some megabytes.

PRAGMA temp_store = MEMORY;

CREATE TABLE reading (id INTEGER PRIMARY KEY, sensor INTEGER NOT NULL, value INTEGER NOT NULL, note TEXT NOT NULL);

WITH RECURSIVE sequence (id, x) AS (
    SELECT 1, 20150
    UNION ALL
    SELECT id + 1, x * 16807 % 2147483647 FROM sequence WHERE id < 16000
)
INSERT INTO reading
SELECT id, x % 997, x / 997 % 10007, x || ' the note makes a row long enough that the table fills some megabytes: station, unit, calibration'
FROM sequence;

CREATE INDEX reading_sensor ON reading (sensor, value);

SELECT 'rows', count(*) FROM reading;

-- A join of the table with itself through the index: neighbours in value on one sensor.
SELECT 'pairs', count(*), sum(b.value - a.value)
FROM reading AS a JOIN reading AS b ON b.sensor = a.sensor AND b.value BETWEEN a.value + 1 AND a.value + 20
WHERE a.id % 4 = 0;

-- Groups, sorted by an expression.
SELECT 'sensor', sensor, count(*), sum(value) FROM reading GROUP BY sensor ORDER BY sum(value) DESC, sensor LIMIT 3;

-- A sort of every row by text without an index.
SELECT 'last', id, substr(note, 1, 12) FROM (SELECT id, note FROM reading ORDER BY note) LIMIT 1 OFFSET 15999;
