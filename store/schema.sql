-- The ledger's schema, a blank line between two statements: that of the oldest home that opens, then each change of it.
-- Checksums of rows, and what keeps rows of forgotten messages out, are made in database.py.

-- Schema 22

CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID

-- Sources: a row for each folder or file named to `pkb ingest` and when it was last brought up to date; each file read,
-- with what tells that it changed; each place of a document. An item below 0 is the former place of a document whose
-- file changed, until the document is removed.
CREATE TABLE roots (path BLOB PRIMARY KEY, collection TEXT NOT NULL, kind TEXT, read TEXT) WITHOUT ROWID

CREATE TABLE files (
  path BLOB PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
  ctime_ns INTEGER NOT NULL DEFAULT -1, digest BLOB NOT NULL DEFAULT x'') WITHOUT ROWID

CREATE INDEX files_changed ON files (mtime_ns)

CREATE TABLE places (
  path BLOB NOT NULL, item INTEGER NOT NULL, document TEXT NOT NULL, message_id TEXT, lines_before INTEGER,
  collection TEXT NOT NULL, PRIMARY KEY (path, item)) WITHOUT ROWID

CREATE INDEX places_document ON places (document)

CREATE INDEX places_former ON places (path) WHERE item < 0

-- Documents whose places changed, and the collections (JSON) that LanceDB's tables still hold for them.
CREATE TABLE relocations (document TEXT PRIMARY KEY, collections TEXT NOT NULL) WITHOUT ROWID

CREATE TABLE problems (
  path BLOB NOT NULL, item INTEGER NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (path, item)) WITHOUT ROWID

-- `rechunk`: to be split into chunks again, because a message that it quotes was removed. `names`: of people in it (JSON).
CREATE TABLE documents (
  id TEXT PRIMARY KEY, date TEXT, chunks INTEGER NOT NULL, rechunk INTEGER NOT NULL DEFAULT 0,
  names TEXT NOT NULL DEFAULT '{}') WITHOUT ROWID

-- The document that a passage is indexed under, and those that quote it: they are read again when that one goes.
CREATE TABLE passages (digest BLOB PRIMARY KEY, document TEXT NOT NULL) WITHOUT ROWID

CREATE INDEX passages_document ON passages (document)

CREATE TABLE quoting (digest BLOB NOT NULL, document TEXT NOT NULL, PRIMARY KEY (digest, document)) WITHOUT ROWID

CREATE INDEX quoting_document ON quoting (document)

CREATE TABLE frequencies (word TEXT PRIMARY KEY, chunks INTEGER NOT NULL) WITHOUT ROWID

-- Chunks that have no vector yet.
CREATE TABLE missing_embeddings (chunk TEXT PRIMARY KEY, document TEXT NOT NULL, date TEXT) WITHOUT ROWID

CREATE INDEX missing_embeddings_document ON missing_embeddings (document)

CREATE INDEX missing_embeddings_date ON missing_embeddings (date)

CREATE TABLE journal (id INTEGER PRIMARY KEY, begun REAL NOT NULL, payload TEXT NOT NULL)

-- Names of people: the spelling in a question, the canonical form, and the number of documents with it.
CREATE TABLE names (word TEXT, form TEXT, documents INTEGER NOT NULL, PRIMARY KEY (word, form)) WITHOUT ROWID

CREATE TRIGGER names_insert AFTER INSERT ON documents BEGIN
  INSERT INTO names SELECT key, value, 1 FROM json_each(new.names) WHERE true
  ON CONFLICT (word, form) DO UPDATE SET documents = documents + 1; END

CREATE TRIGGER names_delete AFTER DELETE ON documents BEGIN
  UPDATE names SET documents = documents - 1 WHERE (word, form) IN (SELECT key, value FROM json_each(old.names));
  DELETE FROM names WHERE documents <= 0 AND word IN (SELECT key FROM json_each(old.names)); END

CREATE TRIGGER names_update AFTER UPDATE OF names ON documents WHEN old.names != new.names BEGIN
  UPDATE names SET documents = documents - 1 WHERE (word, form) IN (SELECT key, value FROM json_each(old.names));
  DELETE FROM names WHERE documents <= 0 AND word IN (SELECT key FROM json_each(old.names));
  INSERT INTO names SELECT key, value, 1 FROM json_each(new.names) WHERE true
  ON CONFLICT (word, form) DO UPDATE SET documents = documents + 1; END

-- When each document was first seen, what is odd about its header, and the names and addresses in it (JSON); and the
-- addresses that each folded name is known by, counted as documents come and go.
CREATE TABLE provenance (
  document TEXT PRIMARY KEY, seen TEXT NOT NULL, warnings TEXT NOT NULL, people TEXT NOT NULL) WITHOUT ROWID

CREATE TABLE people (
  name TEXT, address TEXT, sends INTEGER, seen TEXT NOT NULL, documents INTEGER NOT NULL,
  PRIMARY KEY (name, address, sends)) WITHOUT ROWID

CREATE TRIGGER provenance_insert AFTER INSERT ON provenance BEGIN
  INSERT INTO people (name, address, sends, seen, documents)
  SELECT value ->> 0, value ->> 1, value ->> 2, new.seen, 1 FROM json_each(new.people) WHERE true
  ON CONFLICT (name, address, sends) DO UPDATE SET documents = documents + 1, seen = min(seen, excluded.seen); END

CREATE TRIGGER provenance_delete AFTER DELETE ON provenance BEGIN
  UPDATE people SET documents = documents - 1 WHERE (name, address, sends)
    IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(old.people));
  DELETE FROM people WHERE documents <= 0 AND name IN (SELECT value ->> 0 FROM json_each(old.people)); END

-- The titles of documents, by which questions name them, and their days.
CREATE TABLE titles (document TEXT PRIMARY KEY, kind TEXT NOT NULL, title TEXT NOT NULL, day TEXT) WITHOUT ROWID

CREATE TRIGGER titles_delete AFTER DELETE ON documents BEGIN DELETE FROM titles WHERE document = old.id; END

-- In which generation each document changed last, for the mapped index; and the name of this ledger there.
CREATE TABLE changed_documents (document TEXT PRIMARY KEY, generation INTEGER NOT NULL) WITHOUT ROWID

CREATE INDEX changed_documents_generation ON changed_documents (generation)

INSERT INTO meta VALUES ('index', lower(hex(randomblob(8))))

-- Chunks removed lately, so that what another process derived from them meanwhile can be removed too.
CREATE TABLE removed_chunks (chunk TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID

-- Digests of what the user told pkb to forget, so that it is not indexed again; and of what documents were recognised by
-- that a file no longer has: paths, folders, Message-IDs, texts.
CREATE TABLE forgotten (digest BLOB PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID

CREATE TABLE former_names (document TEXT, name BLOB, PRIMARY KEY (document, name)) WITHOUT ROWID

CREATE INDEX former_names_name ON former_names (name)

-- The answer cache. `state`: answered, pending (a semantic hit was served, not verified yet) or prefilled (not decoded);
-- `reply` is empty for the last two. `origin`: user or predicted, by which `source`. `tau`: this entry's own similarity
-- threshold, NULL for the usual.
CREATE TABLE answers (
  key BLOB PRIMARY KEY, question TEXT NOT NULL, scope TEXT NOT NULL, writer TEXT NOT NULL, day TEXT,
  reply TEXT NOT NULL, evidence TEXT NOT NULL, generation INTEGER NOT NULL, tier TEXT NOT NULL,
  created REAL NOT NULL, made_ms REAL NOT NULL, last_used REAL NOT NULL, uses INTEGER NOT NULL,
  bytes INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'answered', origin TEXT NOT NULL DEFAULT 'user',
  source TEXT NOT NULL DEFAULT '', tau REAL) WITHOUT ROWID

CREATE INDEX answers_last_used ON answers (uses, last_used)

-- The running total of all answers: adding it up takes longer than a nearest-question search.
CREATE TABLE answers_size (answers INTEGER NOT NULL, bytes INTEGER NOT NULL)

INSERT INTO answers_size VALUES (0, 0)

CREATE TRIGGER answers_size_insert AFTER INSERT ON answers BEGIN
  UPDATE answers_size SET answers = answers + 1, bytes = bytes + new.bytes; END

CREATE TRIGGER answers_size_update AFTER UPDATE OF bytes ON answers BEGIN
  UPDATE answers_size SET bytes = bytes + new.bytes - old.bytes; END

CREATE TRIGGER answers_size_delete AFTER DELETE ON answers BEGIN
  UPDATE answers_size SET answers = answers - 1, bytes = bytes - old.bytes; END

-- A question's unit vector (float32); above `floor`, a cosine, a new chunk is among the nearest to it. Numbers are never
-- reused, so that a copy of this table knows which rows it lacks.
CREATE TABLE question_vectors (
  number INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL UNIQUE REFERENCES answers (key) ON DELETE CASCADE,
  embedder TEXT NOT NULL, vector BLOB NOT NULL, floor REAL)

CREATE INDEX question_vectors_embedder ON question_vectors (embedder, number)

-- A question that was served the answer of another (`matched`): to be verified against its own; and whether each answer
-- so served agreed with that.
CREATE TABLE verifications (
  key BLOB PRIMARY KEY REFERENCES answers (key) ON DELETE CASCADE,
  matched BLOB NOT NULL REFERENCES answers (key) ON DELETE CASCADE,
  similarity REAL NOT NULL, served TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID

CREATE INDEX verifications_matched ON verifications (matched)

CREATE TABLE verification_results (
  id INTEGER PRIMARY KEY, matched BLOB REFERENCES answers (key) ON DELETE SET NULL, similarity REAL NOT NULL,
  correct INTEGER NOT NULL, at REAL NOT NULL)

CREATE INDEX verification_results_matched ON verification_results (matched)

-- Corrections to show when a question is asked next; questions that new chunks may affect; rejected answers.
CREATE TABLE notices (
  key BLOB PRIMARY KEY REFERENCES answers (key) ON DELETE CASCADE, kind TEXT NOT NULL, before TEXT NOT NULL,
  after TEXT, cause TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID

CREATE TABLE refresh_candidates (
  key BLOB PRIMARY KEY REFERENCES answers (key) ON DELETE CASCADE, chunk TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID

CREATE TABLE rejected_answers (key BLOB PRIMARY KEY, answer TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID

-- The query history. Prompt tokens are NULL where no model ran; `key`: the question's in the answer cache, NULL where it
-- was asked past that. Then the ids (JSON) of the chunks that a question retrieved, and the best of them.
CREATE TABLE history (
  id INTEGER PRIMARY KEY, at REAL NOT NULL, question TEXT NOT NULL, tier TEXT NOT NULL, answered INTEGER NOT NULL,
  total_ms REAL NOT NULL, saved_ms REAL NOT NULL, prompt_tokens INTEGER, reused_tokens INTEGER, key BLOB,
  stale INTEGER NOT NULL DEFAULT 0)

CREATE INDEX history_key ON history (key)

CREATE TABLE retrievals (
  question INTEGER PRIMARY KEY REFERENCES history (id) ON DELETE CASCADE, chunks TEXT NOT NULL, best TEXT)

-- The documents that a question was ever answered from, by its key (its number in the history where it has none): until
-- no row of it is left.
CREATE TABLE question_documents (key BLOB, document TEXT, PRIMARY KEY (key, document)) WITHOUT ROWID

-- A node of the KV cache tree. `state`: reserved (`owner` is writing its file), complete, or deleting (`owner` is
-- removing it). `first`: the digest of its first sub-step. From `size` to `inode`: its file when it was last verified.
-- `document`: of its segment, empty for no document's.
CREATE TABLE kv_nodes (
  key BLOB PRIMARY KEY, parent BLOB NOT NULL, path BLOB NOT NULL, depth INTEGER NOT NULL, ids BLOB NOT NULL,
  first BLOB, bytes INTEGER NOT NULL, seconds REAL NOT NULL, created REAL NOT NULL, last_used REAL NOT NULL,
  uses INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL, owner TEXT, size INTEGER, mtime_ns INTEGER,
  ctime_ns INTEGER, inode INTEGER, document TEXT)

CREATE INDEX kv_nodes_parent ON kv_nodes (parent, first)

CREATE INDEX kv_nodes_unfinished ON kv_nodes (state) WHERE state != 'complete'

CREATE INDEX kv_nodes_document ON kv_nodes (document)

-- Nodes that a process is loading: not evicted until it is done, or `until`.
CREATE TABLE kv_pins (id INTEGER PRIMARY KEY, key BLOB NOT NULL, owner TEXT NOT NULL, until REAL NOT NULL)

-- The ghost list: evicted nodes.
CREATE TABLE kv_ghosts (
  key BLOB PRIMARY KEY, tokens INTEGER NOT NULL, bytes INTEGER NOT NULL, seconds REAL NOT NULL,
  evicted REAL NOT NULL) WITHOUT ROWID

CREATE INDEX kv_ghosts_evicted ON kv_ghosts (evicted)

CREATE TABLE kv_written (day INTEGER PRIMARY KEY, bytes INTEGER NOT NULL)

CREATE TABLE kv_counts (
  kind TEXT NOT NULL, name TEXT NOT NULL, count INTEGER NOT NULL, tokens INTEGER NOT NULL, bytes INTEGER NOT NULL,
  seconds REAL NOT NULL, PRIMARY KEY (kind, name)) WITHOUT ROWID

-- Idle jobs. `subject` is unique within a kind; `source`: what asked for it.
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY, kind TEXT NOT NULL, subject TEXT NOT NULL, cost_s REAL NOT NULL, benefit_s REAL NOT NULL,
  attempts INTEGER NOT NULL, state TEXT NOT NULL, created REAL NOT NULL, source TEXT NOT NULL, UNIQUE (kind, subject))

-- The cost of each kind of job, the cache hits on its outputs, and the seconds those saved.
CREATE TABLE job_stats (
  kind TEXT PRIMARY KEY, units INTEGER NOT NULL, seconds REAL NOT NULL, hits INTEGER NOT NULL, saved_s REAL NOT NULL)

-- Answers and KV nodes that jobs made, how often each had been used at the last count, the predictor behind each, and
-- how much of a question asked later its first use credits to that.
CREATE TABLE job_outputs (
  key BLOB PRIMARY KEY, kind TEXT NOT NULL, uses INTEGER NOT NULL, source TEXT NOT NULL DEFAULT '',
  credit REAL NOT NULL DEFAULT 0) WITHOUT ROWID

-- How many questions each predictor predicted, how many of them were asked later, and when.
CREATE TABLE predictor_stats (
  source TEXT PRIMARY KEY, predicted INTEGER NOT NULL, credited REAL NOT NULL, first REAL NOT NULL,
  last REAL NOT NULL, last_credited REAL) WITHOUT ROWID

-- The chunks that a predicted question was made from.
CREATE TABLE predictions (question TEXT NOT NULL, chunk TEXT NOT NULL, PRIMARY KEY (question, chunk)) WITHOUT ROWID

CREATE INDEX predictions_chunk ON predictions (chunk)

-- The documents that changed since a generation of the mapped index.
CREATE TRIGGER documents_changed_insert AFTER insert ON documents BEGIN
  INSERT INTO changed_documents SELECT new.id, coalesce(max(CAST(value AS INTEGER)), 0) FROM meta
  WHERE name = 'generation' ON CONFLICT (document) DO UPDATE SET generation = excluded.generation; END

CREATE TRIGGER documents_changed_delete AFTER delete ON documents BEGIN
  INSERT INTO changed_documents SELECT old.id, coalesce(max(CAST(value AS INTEGER)), 0) FROM meta
  WHERE name = 'generation' ON CONFLICT (document) DO UPDATE SET generation = excluded.generation; END

CREATE TRIGGER missing_embeddings_changed_insert AFTER insert ON missing_embeddings BEGIN
  INSERT INTO changed_documents SELECT new.document, coalesce(max(CAST(value AS INTEGER)), 0) FROM meta
  WHERE name = 'generation' ON CONFLICT (document) DO UPDATE SET generation = excluded.generation; END

CREATE TRIGGER missing_embeddings_changed_delete AFTER delete ON missing_embeddings BEGIN
  INSERT INTO changed_documents SELECT old.document, coalesce(max(CAST(value AS INTEGER)), 0) FROM meta
  WHERE name = 'generation' ON CONFLICT (document) DO UPDATE SET generation = excluded.generation; END

CREATE TRIGGER relocations_changed_delete AFTER delete ON relocations BEGIN
  INSERT INTO changed_documents SELECT old.document, coalesce(max(CAST(value AS INTEGER)), 0) FROM meta
  WHERE name = 'generation' ON CONFLICT (document) DO UPDATE SET generation = excluded.generation; END

-- What a question is about is dropped with the last thing that names it.
CREATE TRIGGER history_documents_delete AFTER DELETE ON history BEGIN
  DELETE FROM question_documents WHERE key = coalesce(old.key, CAST(old.id AS BLOB)) AND NOT EXISTS (SELECT 1 FROM history WHERE key = coalesce(old.key, CAST(old.id AS BLOB)))
  AND NOT EXISTS (SELECT 1 FROM answers WHERE key = coalesce(old.key, CAST(old.id AS BLOB)))
  AND NOT EXISTS (SELECT 1 FROM rejected_answers WHERE key = coalesce(old.key, CAST(old.id AS BLOB))); END

CREATE TRIGGER answers_documents_delete AFTER DELETE ON answers BEGIN
  DELETE FROM question_documents WHERE key = old.key AND NOT EXISTS (SELECT 1 FROM history WHERE key = old.key)
  AND NOT EXISTS (SELECT 1 FROM answers WHERE key = old.key)
  AND NOT EXISTS (SELECT 1 FROM rejected_answers WHERE key = old.key); END

CREATE TRIGGER rejected_answers_documents_delete AFTER DELETE ON rejected_answers BEGIN
  DELETE FROM question_documents WHERE key = old.key AND NOT EXISTS (SELECT 1 FROM history WHERE key = old.key)
  AND NOT EXISTS (SELECT 1 FROM answers WHERE key = old.key)
  AND NOT EXISTS (SELECT 1 FROM rejected_answers WHERE key = old.key); END

-- Schema 23: the kinds of misread text stand with the items that could not be read completely

ALTER TABLE problems ADD COLUMN kinds TEXT NOT NULL DEFAULT ''

-- Schema 24: a list of the search tables' files replaces the journal of changes

CREATE TABLE table_files (
  path TEXT PRIMARY KEY, crc INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
  ctime_ns INTEGER NOT NULL, inode INTEGER NOT NULL) WITHOUT ROWID

INSERT INTO meta SELECT 'tables.doubtful', '1' WHERE EXISTS (SELECT 1 FROM journal)

DROP TABLE journal

CREATE TABLE moved (document TEXT PRIMARY KEY) WITHOUT ROWID

INSERT INTO moved SELECT document FROM relocations

DROP TABLE relocations

CREATE TRIGGER moved_changed_delete AFTER delete ON moved BEGIN
  INSERT INTO changed_documents SELECT old.document, coalesce(max(CAST(value AS INTEGER)), 0) FROM meta
  WHERE name = 'generation' ON CONFLICT (document) DO UPDATE SET generation = excluded.generation; END

-- Schema 25: index and tables tell the counts of words and the chunks without a vector

INSERT OR REPLACE INTO meta
  SELECT 'embedded', CAST(value AS INTEGER) - (SELECT count(*) FROM missing_embeddings)
  FROM meta WHERE name = 'chunks'

DROP TABLE frequencies

DROP TABLE missing_embeddings

DELETE FROM meta WHERE name = 'words'

-- Schema 26: no abstracts; the next change of the tables removes files that are not listed

DELETE FROM table_files WHERE path LIKE 'abstracts.lance/%'

DELETE FROM meta WHERE name IN ('abstracts_done', 'predicted.abstracts')

DELETE FROM jobs WHERE kind = 'summarize'

DELETE FROM job_stats WHERE kind = 'summarize'

DELETE FROM predictor_stats WHERE source = 'abstracts/model'

-- Schema 27: the mapped index follows the changed documents

DELETE FROM meta WHERE name = 'index.since'

-- Schema 28: the ledger lists the shards, documents with new vectors have changed, and a Message-ID is looked up

DROP TRIGGER IF EXISTS embedded_documents_delete

DROP TABLE IF EXISTS embedded_documents

INSERT OR REPLACE INTO meta SELECT 'kv.lacking', '1' WHERE EXISTS (SELECT 1 FROM kv_ghosts)

DROP TABLE kv_ghosts

CREATE INDEX places_message ON places (message_id)

-- Schema 29: a document whose places change has changed for the mapped index; one without any is marked by `rechunk`

UPDATE documents SET rechunk = 1
  WHERE id IN (SELECT document FROM moved) AND id NOT IN (SELECT document FROM places)

DELETE FROM moved

DROP TABLE moved

UPDATE meta SET value = CAST(value + 1 AS TEXT) WHERE name = 'generation'

CREATE TRIGGER places_changed_insert AFTER insert ON places BEGIN
  INSERT INTO changed_documents SELECT new.document, coalesce(max(CAST(value AS INTEGER)), 0) FROM meta
  WHERE name = 'generation' ON CONFLICT (document) DO UPDATE SET generation = excluded.generation; END

CREATE TRIGGER places_changed_delete AFTER delete ON places BEGIN
  INSERT INTO changed_documents SELECT old.document, coalesce(max(CAST(value AS INTEGER)), 0) FROM meta
  WHERE name = 'generation' ON CONFLICT (document) DO UPDATE SET generation = excluded.generation; END

CREATE TRIGGER places_changed_update AFTER update OF collection ON places BEGIN
  INSERT INTO changed_documents SELECT new.document, coalesce(max(CAST(value AS INTEGER)), 0) FROM meta
  WHERE name = 'generation' ON CONFLICT (document) DO UPDATE SET generation = excluded.generation; END

-- Schema 30: one process writes KV nodes at a time, and holds none against eviction

DELETE FROM kv_nodes WHERE state != 'complete'

DROP INDEX kv_nodes_unfinished

ALTER TABLE kv_nodes DROP COLUMN state

ALTER TABLE kv_nodes DROP COLUMN owner

DROP TABLE kv_pins

-- Schema 31: attempts alone tell that a job was begun, and none is of the kind convert

ALTER TABLE jobs DROP COLUMN state

DELETE FROM jobs WHERE kind = 'convert'

-- Schema 32: no counts of predictors beside the answers

DROP TABLE predictor_stats

ALTER TABLE job_outputs DROP COLUMN source

ALTER TABLE job_outputs DROP COLUMN credit

-- Schema 33: the addresses of names are counted for all documents of a commit at once

DROP TRIGGER IF EXISTS provenance_insert
