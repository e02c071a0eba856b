"""The schema of the ledger (SQLite), as numbered migrations: one is added at the end and never edited once released."""

from typing import Final

from store.checksums import add_checksums

_FIRST = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # Sources: a row for each folder or file named to `pkb ingest`, each file read, each place of a document.
    "CREATE TABLE roots (path BLOB PRIMARY KEY, collection TEXT NOT NULL, kind TEXT) WITHOUT ROWID",
    """CREATE TABLE files (
        path BLOB PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL)
        WITHOUT ROWID""",
    "CREATE INDEX files_changed ON files (mtime_ns)",
    """CREATE TABLE places (
        path BLOB NOT NULL, item INTEGER NOT NULL, document TEXT NOT NULL, message_id TEXT, lines_before INTEGER,
        collection TEXT NOT NULL, PRIMARY KEY (path, item)) WITHOUT ROWID""",
    "CREATE INDEX places_document ON places (document)",
    # The former place of a document whose file changed, until the document is removed: an item below 0.
    "CREATE INDEX places_former ON places (path) WHERE item < 0",
    # Documents whose places changed, and the collections (JSON) that LanceDB's tables still hold for them.
    "CREATE TABLE moved (document TEXT PRIMARY KEY, collections TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE problems (
        path BLOB NOT NULL, item INTEGER NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (path, item)) WITHOUT ROWID""",
    # `again`: to be split into chunks again, because a message that it quotes was removed.
    """CREATE TABLE documents (
        id TEXT PRIMARY KEY, date TEXT, thread TEXT NOT NULL, chunks INTEGER NOT NULL, again INTEGER NOT NULL DEFAULT 0)
        WITHOUT ROWID""",
    "CREATE INDEX documents_thread ON documents (thread)",
    # A Message-ID ("id:...") or a subject ("topic:...") and the thread it leads to.
    "CREATE TABLE threads (key TEXT PRIMARY KEY, thread TEXT NOT NULL) WITHOUT ROWID",
    "CREATE INDEX threads_thread ON threads (thread)",
    # The document that a passage is indexed under, and those that quote it: they are read again when that one goes.
    "CREATE TABLE passages (digest BLOB PRIMARY KEY, document TEXT NOT NULL) WITHOUT ROWID",
    "CREATE INDEX passages_document ON passages (document)",
    "CREATE TABLE quoting (digest BLOB NOT NULL, document TEXT NOT NULL, PRIMARY KEY (digest, document)) WITHOUT ROWID",
    "CREATE INDEX quoting_document ON quoting (document)",
    "CREATE TABLE frequencies (word TEXT PRIMARY KEY, chunks INTEGER NOT NULL) WITHOUT ROWID",
    # Chunks that have no vector yet.
    "CREATE TABLE pending (chunk TEXT PRIMARY KEY, document TEXT NOT NULL, date TEXT) WITHOUT ROWID",
    "CREATE INDEX pending_document ON pending (document)",
    "CREATE INDEX pending_date ON pending (date)",
    "CREATE TABLE journal (id INTEGER PRIMARY KEY, begun REAL NOT NULL, payload TEXT NOT NULL)",
    # The answer cache and the query history.
    """CREATE TABLE answers (
        key BLOB PRIMARY KEY, question TEXT NOT NULL, scope TEXT NOT NULL, writer TEXT NOT NULL, day TEXT,
        reply TEXT NOT NULL, evidence TEXT NOT NULL, generation INTEGER NOT NULL, tier TEXT NOT NULL,
        created REAL NOT NULL, made_ms REAL NOT NULL, used REAL NOT NULL, uses INTEGER NOT NULL,
        bytes INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX answers_used ON answers (uses, used)",
    """CREATE TABLE asked (
        id INTEGER PRIMARY KEY, at REAL NOT NULL, question TEXT NOT NULL, tier TEXT NOT NULL, answered INTEGER NOT NULL,
        total_ms REAL NOT NULL, saved_ms REAL NOT NULL)""",
)

_KV = (
    # A node of the KV cache tree. `state`: reserved (`owner` is writing its file), whole, or dying (`owner` is removing
    # it). `first`: the digest of its first sub-step. The last four: its file when it was last verified.
    """CREATE TABLE kv_nodes (
        key BLOB PRIMARY KEY, root BLOB NOT NULL, parent BLOB NOT NULL, path BLOB NOT NULL, depth INTEGER NOT NULL,
        ids BLOB NOT NULL, first BLOB, bytes INTEGER NOT NULL, seconds REAL NOT NULL, created REAL NOT NULL,
        last_used REAL NOT NULL, uses INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL, owner TEXT,
        size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER, inode INTEGER)""",
    "CREATE INDEX kv_nodes_parent ON kv_nodes (parent, first)",
    "CREATE INDEX kv_nodes_path ON kv_nodes (path)",
    "CREATE INDEX kv_nodes_unfinished ON kv_nodes (state) WHERE state != 'whole'",
    # Nodes that a process is loading: not evicted until it is done, or `until`.
    "CREATE TABLE kv_pins (id INTEGER PRIMARY KEY, key BLOB NOT NULL, owner TEXT NOT NULL, until REAL NOT NULL)",
    # The ghost list: evicted nodes.
    """CREATE TABLE kv_ghosts (
        key BLOB PRIMARY KEY, tokens INTEGER NOT NULL, bytes INTEGER NOT NULL, seconds REAL NOT NULL,
        uses INTEGER NOT NULL, evicted REAL NOT NULL, freed INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX kv_ghosts_evicted ON kv_ghosts (evicted)",
    "CREATE TABLE kv_written (day INTEGER PRIMARY KEY, bytes INTEGER NOT NULL)",
    """CREATE TABLE kv_counts (
        kind TEXT NOT NULL, name TEXT NOT NULL, count INTEGER NOT NULL, tokens INTEGER NOT NULL, bytes INTEGER NOT NULL,
        seconds REAL NOT NULL, PRIMARY KEY (kind, name)) WITHOUT ROWID""",
)

_RETRIEVED = (
    # Prompt tokens of a question, NULL where no model ran; and the ids (JSON) of the chunks retrieved.
    "ALTER TABLE asked ADD COLUMN prompt_tokens INTEGER",
    "ALTER TABLE asked ADD COLUMN reused_tokens INTEGER",
    "CREATE TABLE retrieved (asked INTEGER PRIMARY KEY REFERENCES asked (id) ON DELETE CASCADE, chunks TEXT NOT NULL)",
)

_BANK = (
    # `state`: answered, owed (a semantic hit was served) or undecoded (prefilled); `reply` is empty for the last two.
    # `origin`: user or predicted, by which `source`. `tau`: this entry's own similarity threshold, NULL for the usual.
    "ALTER TABLE answers ADD COLUMN state TEXT NOT NULL DEFAULT 'answered'",
    "ALTER TABLE answers ADD COLUMN origin TEXT NOT NULL DEFAULT 'user'",
    "ALTER TABLE answers ADD COLUMN source TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE answers ADD COLUMN tau REAL",
    # The running total of all answers: adding it up takes longer than a nearest-question search.
    "CREATE TABLE bank_size (answers INTEGER NOT NULL, bytes INTEGER NOT NULL)",
    "INSERT INTO bank_size SELECT count(*), coalesce(sum(bytes), 0) FROM answers",
    """CREATE TRIGGER bank_grows AFTER INSERT ON answers BEGIN
        UPDATE bank_size SET answers = answers + 1, bytes = bytes + new.bytes; END""",
    """CREATE TRIGGER bank_changes AFTER UPDATE OF bytes ON answers BEGIN
        UPDATE bank_size SET bytes = bytes + new.bytes - old.bytes; END""",
    """CREATE TRIGGER bank_shrinks AFTER DELETE ON answers BEGIN
        UPDATE bank_size SET answers = answers - 1, bytes = bytes - old.bytes; END""",
    # A question's unit vector (float32); above `floor`, a cosine, a new chunk is among the nearest to it. Numbers are
    # never reused, so that a copy of this table knows which rows it lacks.
    """CREATE TABLE bank_vectors (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        key BLOB NOT NULL UNIQUE REFERENCES answers (key) ON DELETE CASCADE,
        embedder TEXT NOT NULL, vector BLOB NOT NULL, floor REAL)""",
    "CREATE INDEX bank_vectors_embedder ON bank_vectors (embedder, number)",
    # A question that was served the answer of another (`matched`): to be verified against its own.
    """CREATE TABLE owed (
        key BLOB PRIMARY KEY REFERENCES answers (key) ON DELETE CASCADE,
        matched BLOB NOT NULL REFERENCES answers (key) ON DELETE CASCADE,
        similarity REAL NOT NULL, served TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX owed_matched ON owed (matched)",
    # Whether each answer so served agreed with the question's own.
    """CREATE TABLE judged (
        id INTEGER PRIMARY KEY, matched BLOB REFERENCES answers (key) ON DELETE SET NULL,
        similarity REAL NOT NULL, "right" INTEGER NOT NULL, at REAL NOT NULL)""",
    "CREATE INDEX judged_matched ON judged (matched)",
    # Corrections to show when a question is asked next; questions that new chunks may affect; rejected answers.
    """CREATE TABLE notices (
        key BLOB PRIMARY KEY REFERENCES answers (key) ON DELETE CASCADE,
        kind TEXT NOT NULL, before TEXT NOT NULL, after TEXT, because TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE hints (
        key BLOB PRIMARY KEY REFERENCES answers (key) ON DELETE CASCADE,
        chunk TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID""",
    "CREATE TABLE wrong (key BLOB PRIMARY KEY, answer TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID",
    # The key of the question, the key of the entry whose answer was served for it, and whether that was stale.
    "ALTER TABLE asked ADD COLUMN key BLOB",
    "ALTER TABLE asked ADD COLUMN matched BLOB",
    "ALTER TABLE asked ADD COLUMN stale INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX asked_key ON asked (key)",
)

_IDLE_RUN = (
    # Idle jobs. `subject` is unique within a kind; `source`: what asked for it.
    """CREATE TABLE jobs (
        id INTEGER PRIMARY KEY, kind TEXT NOT NULL, subject TEXT NOT NULL, cost_s REAL NOT NULL,
        benefit_s REAL NOT NULL, attempts INTEGER NOT NULL, state TEXT NOT NULL, created REAL NOT NULL,
        source TEXT NOT NULL, UNIQUE (kind, subject))""",
    # The cost of each kind of job, the cache hits on its outputs, and the seconds those saved.
    """CREATE TABLE idle_spent (
        kind TEXT PRIMARY KEY, units INTEGER NOT NULL, seconds REAL NOT NULL, read INTEGER NOT NULL,
        written INTEGER NOT NULL, flops REAL NOT NULL, bytes INTEGER NOT NULL, hits INTEGER NOT NULL,
        saved_s REAL NOT NULL)""",
    # Answers and KV nodes that jobs made, and how often each had been used at the last count.
    "CREATE TABLE idle_made (key BLOB PRIMARY KEY, kind TEXT NOT NULL, uses INTEGER NOT NULL) WITHOUT ROWID",
    # How many questions each predictor predicted, how many of them were asked later, and when.
    """CREATE TABLE foreseen (
        source TEXT PRIMARY KEY, predicted INTEGER NOT NULL, paid REAL NOT NULL, first REAL NOT NULL,
        last REAL NOT NULL, last_paid REAL) WITHOUT ROWID""",
)

# Percent of the battery that a kind of job used.
_BATTERY = ("ALTER TABLE idle_spent ADD COLUMN battery REAL NOT NULL DEFAULT 0",)

# The predictor behind an output, and how much of a question asked later its first use credits to that predictor.
_PAYS = (
    "ALTER TABLE idle_made ADD COLUMN source TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE idle_made ADD COLUMN pays REAL NOT NULL DEFAULT 0",
)

# The cost of each kind of idle job in all runs, the cache hits on its outputs, and the seconds those saved.
_RUNS = (
    """CREATE TABLE idle_runs (
        kind TEXT PRIMARY KEY, units INTEGER NOT NULL, seconds REAL NOT NULL, flops REAL NOT NULL,
        hits INTEGER NOT NULL, saved_s REAL NOT NULL)""",
    "INSERT INTO idle_runs SELECT kind, units, seconds, flops, hits, saved_s FROM idle_spent ORDER BY rowid",
    "DROP TABLE idle_spent",
)

_KINDS = (
    ("first", "prefetch"),
    ("refill", "restore"),
    ("owed", "verify"),
    ("abstract", "summarize"),
    ("upkeep", "maintenance"),
)
# Names and values in the field's words; what nothing reads any more is dropped.
_NAMES = (
    "ALTER TABLE moved RENAME TO relocations",
    "DROP INDEX documents_thread",
    "ALTER TABLE documents DROP COLUMN thread",
    "ALTER TABLE documents RENAME COLUMN again TO rechunk",
    "DROP TABLE threads",
    "ALTER TABLE pending RENAME TO missing_embeddings",
    "DROP INDEX pending_document",
    "DROP INDEX pending_date",
    "CREATE INDEX missing_embeddings_document ON missing_embeddings (document)",
    "CREATE INDEX missing_embeddings_date ON missing_embeddings (date)",
    # The query history. `key`: the question's in the answer cache, NULL where it was asked past that.
    "ALTER TABLE asked RENAME TO history",
    "ALTER TABLE history DROP COLUMN matched",
    "DROP INDEX asked_key",
    "CREATE INDEX history_key ON history (key)",
    "ALTER TABLE retrieved RENAME TO retrievals",
    "ALTER TABLE retrievals RENAME COLUMN asked TO question",
    # `state`: answered, pending (a semantic hit was served, not verified yet) or prefilled (not decoded).
    "UPDATE answers SET state = 'pending' WHERE state = 'owed'",
    "UPDATE answers SET state = 'prefilled' WHERE state = 'undecoded'",
    "ALTER TABLE answers RENAME COLUMN used TO last_used",
    "DROP INDEX answers_used",
    "CREATE INDEX answers_last_used ON answers (uses, last_used)",
    "DROP TRIGGER bank_grows",
    "DROP TRIGGER bank_changes",
    "DROP TRIGGER bank_shrinks",
    "ALTER TABLE bank_size RENAME TO answers_size",
    """CREATE TRIGGER answers_size_insert AFTER INSERT ON answers BEGIN
        UPDATE answers_size SET answers = answers + 1, bytes = bytes + new.bytes; END""",
    """CREATE TRIGGER answers_size_update AFTER UPDATE OF bytes ON answers BEGIN
        UPDATE answers_size SET bytes = bytes + new.bytes - old.bytes; END""",
    """CREATE TRIGGER answers_size_delete AFTER DELETE ON answers BEGIN
        UPDATE answers_size SET answers = answers - 1, bytes = bytes - old.bytes; END""",
    "ALTER TABLE bank_vectors RENAME TO question_vectors",
    "DROP INDEX bank_vectors_embedder",
    "CREATE INDEX question_vectors_embedder ON question_vectors (embedder, number)",
    "ALTER TABLE owed RENAME TO verifications",
    "DROP INDEX owed_matched",
    "CREATE INDEX verifications_matched ON verifications (matched)",
    "ALTER TABLE judged RENAME TO verification_results",
    'ALTER TABLE verification_results RENAME COLUMN "right" TO correct',
    "DROP INDEX judged_matched",
    "CREATE INDEX verification_results_matched ON verification_results (matched)",
    "ALTER TABLE notices RENAME COLUMN because TO cause",
    "ALTER TABLE hints RENAME TO refresh_candidates",
    "ALTER TABLE wrong RENAME TO rejected_answers",
    # `state`: reserved (`owner` is writing its file), complete, or deleting (`owner` is removing it).
    "DROP INDEX kv_nodes_unfinished",
    "DROP INDEX kv_nodes_path",
    "ALTER TABLE kv_nodes DROP COLUMN root",
    "UPDATE kv_nodes SET state = 'complete' WHERE state = 'whole'",
    "UPDATE kv_nodes SET state = 'deleting' WHERE state = 'dying'",
    "CREATE INDEX kv_nodes_unfinished ON kv_nodes (state) WHERE state != 'complete'",
    "ALTER TABLE kv_ghosts DROP COLUMN uses",
    "ALTER TABLE kv_ghosts DROP COLUMN freed",
    *(
        f"UPDATE kv_counts SET name = '{new}' WHERE kind = '{kind}' AND name = '{old}'"
        for kind, old, new in (
            ("removed", "room", "evicted"),
            ("removed", "forgotten", "deleted"),
            ("removed", "torn", "truncated"),
            ("removed", "flipped", "checksum"),
            ("removed", "foreign", "mismatch"),
            ("refused", "room", "no_space"),
            ("refused", "day", "daily_limit"),
            ("refused", "disk", "write_error"),
            ("refused", "coming", "in_progress"),
            ("refused", "parent", "no_parent"),
            ("refused", "forgotten", "deleted"),
        )
    ),
    "UPDATE jobs SET state = 'pending' WHERE state = 'waiting'",
    "UPDATE jobs SET state = 'running' WHERE state = 'begun'",
    "ALTER TABLE idle_runs RENAME TO job_stats",
    "ALTER TABLE job_stats DROP COLUMN flops",
    "ALTER TABLE idle_made RENAME TO job_outputs",
    "ALTER TABLE job_outputs RENAME COLUMN pays TO credit",
    *(
        f"UPDATE {table} SET kind = '{new}' WHERE kind = '{old}'"
        for table in ("jobs", "job_stats", "job_outputs")
        for old, new in _KINDS
    ),
    "ALTER TABLE foreseen RENAME TO predictor_stats",
    "ALTER TABLE predictor_stats RENAME COLUMN paid TO credited",
    "ALTER TABLE predictor_stats RENAME COLUMN last_paid TO last_credited",
    "UPDATE meta SET name = 'uncompacted' WHERE name = 'untidy'",
    "UPDATE meta SET name = 'integrity.position' WHERE name = 'slice.at'",
    "DELETE FROM meta WHERE name IN ('rested', 'kv.freed', 'upkeep.questions')",
    "UPDATE meta SET name = replace(name, 'upkeep.', 'maintenance.') WHERE name LIKE 'upkeep.%'",
)

# Cached answers in the JSON of schema 2, and with it the bytes that they take.
_ANSWERS = (
    """UPDATE answers SET bytes = bytes - length(CAST(reply AS BLOB))
        + length(CAST(upgrade_answer_json(reply, question, tier, made_ms) AS BLOB)) WHERE reply != ''""",
    "UPDATE answers SET reply = upgrade_answer_json(reply, question, tier, made_ms) WHERE reply != ''",
)

# Names of people: the spelling in a question, the canonical form, and the number of documents with it, which triggers
# keep current.
_PEOPLE = (
    "CREATE TABLE names (word TEXT, form TEXT, documents INTEGER NOT NULL, PRIMARY KEY (word, form)) WITHOUT ROWID",
    "ALTER TABLE documents ADD COLUMN names TEXT NOT NULL DEFAULT '{}'",
    """CREATE TRIGGER names_insert AFTER INSERT ON documents BEGIN
        INSERT INTO names SELECT key, value, 1 FROM json_each(new.names) WHERE true
        ON CONFLICT (word, form) DO UPDATE SET documents = documents + 1; END""",
    """CREATE TRIGGER names_delete AFTER DELETE ON documents BEGIN
        UPDATE names SET documents = documents - 1
        WHERE (word, form) IN (SELECT key, value FROM json_each(old.names));
        DELETE FROM names WHERE documents <= 0 AND word IN (SELECT key FROM json_each(old.names)); END""",
    """CREATE TRIGGER names_update AFTER UPDATE OF names ON documents WHEN old.names != new.names BEGIN
        UPDATE names SET documents = documents - 1
        WHERE (word, form) IN (SELECT key, value FROM json_each(old.names));
        DELETE FROM names WHERE documents <= 0 AND word IN (SELECT key FROM json_each(old.names));
        INSERT INTO names SELECT key, value, 1 FROM json_each(new.names) WHERE true
        ON CONFLICT (word, form) DO UPDATE SET documents = documents + 1; END""",
)

# What hangs on documents, to be removed with them.
_LINKS = (
    # The document that the segment of a KV node is of, empty for no document's; NULL: not known, of an older pkb.
    "ALTER TABLE kv_nodes ADD COLUMN document TEXT",
    "CREATE INDEX kv_nodes_document ON kv_nodes (document)",
    # The chunks that a predicted question was made from.
    """CREATE TABLE predictions (
        question TEXT NOT NULL, chunk TEXT NOT NULL, PRIMARY KEY (question, chunk)) WITHOUT ROWID""",
    "CREATE INDEX predictions_chunk ON predictions (chunk)",
    # Chunks removed lately, so that what another process derived from them meanwhile can be removed too.
    "CREATE TABLE removed_chunks (chunk TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID",
)

# Every file is read again: for the names in it, and for local days; until then, days are those of UTC.
_REREAD = ("UPDATE files SET mtime_ns = -1", "UPDATE documents SET rechunk = 1")

# When each document was first seen, what is odd about its header, and the names and addresses in it (JSON); and the
# addresses that each folded name is known by, counted as documents come and go. Every file is read again for them.
_PROVENANCE = (
    """CREATE TABLE provenance (
        document TEXT PRIMARY KEY, seen TEXT NOT NULL, warnings TEXT NOT NULL, people TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE people (
        name TEXT, address TEXT, sends INTEGER, seen TEXT NOT NULL, documents INTEGER NOT NULL,
        PRIMARY KEY (name, address, sends)) WITHOUT ROWID""",
    """CREATE TRIGGER provenance_insert AFTER INSERT ON provenance BEGIN
        INSERT INTO people SELECT value ->> 0, value ->> 1, value ->> 2, new.seen, 1
        FROM json_each(new.people) WHERE true
        ON CONFLICT (name, address, sends) DO UPDATE SET documents = documents + 1, seen = min(seen, excluded.seen);
        END""",
    """CREATE TRIGGER provenance_delete AFTER DELETE ON provenance BEGIN
        UPDATE people SET documents = documents - 1 WHERE (name, address, sends)
            IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(old.people));
        DELETE FROM people WHERE documents <= 0
            AND name IN (SELECT value ->> 0 FROM json_each(old.people)); END""",
    "UPDATE files SET mtime_ns = -1",
    "UPDATE documents SET rechunk = 1",
)

# When each root was last brought up to date.
_READ = ("ALTER TABLE roots ADD COLUMN read TEXT",)

# Checksums of what is shown; the trigger is as before but for the columns that it names.
_CHECKSUMS = (
    "DROP TRIGGER provenance_insert",
    """CREATE TRIGGER provenance_insert AFTER INSERT ON provenance BEGIN
        INSERT INTO people (name, address, sends, seen, documents)
        SELECT value ->> 0, value ->> 1, value ->> 2, new.seen, 1 FROM json_each(new.people) WHERE true
        ON CONFLICT (name, address, sends) DO UPDATE SET documents = documents + 1, seen = min(seen, excluded.seen);
        END""",
    *add_checksums(
        "answers", "verifications", "notices", "rejected_answers", "predictions", "provenance", "people", "places"
    ),
)

# The best of the chunks (JSON) that a question retrieved, NULL in rows of before; the titles of documents, by which
# questions name them, and their days.
_TITLES = (
    "ALTER TABLE retrievals ADD COLUMN best TEXT",
    """CREATE TABLE titles (
        document TEXT PRIMARY KEY, kind TEXT NOT NULL, title TEXT NOT NULL, day TEXT) WITHOUT ROWID""",
    "CREATE TRIGGER titles_delete AFTER DELETE ON documents BEGIN DELETE FROM titles WHERE document = old.id; END",
)

# In which generation each document changed last, for the mapped index; and the name of this ledger there.
_CHANGES = (
    "CREATE TABLE changed_documents (document TEXT PRIMARY KEY, generation INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX changed_documents_generation ON changed_documents (generation)",
    "INSERT INTO meta VALUES ('index', lower(hex(randomblob(8))))",
    *(
        f"""CREATE TRIGGER {table}_changed_{event} AFTER {event} ON {table} BEGIN
        INSERT INTO changed_documents SELECT {changed}, coalesce(max(CAST(value AS INTEGER)), 0) FROM meta
        WHERE name = 'generation' ON CONFLICT (document) DO UPDATE SET generation = excluded.generation; END"""
        for table, event, changed in (
            *(("documents", "insert", "new.id"), ("documents", "delete", "old.id")),
            *(("missing_embeddings", "insert", "new.document"), ("missing_embeddings", "delete", "old.document")),
            ("relocations", "delete", "old.document"),
        )
    ),
)

# Digests of what the user told pkb to forget, so that it is not indexed again.
_FORGOTTEN = ("CREATE TABLE forgotten (digest BLOB PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID",)

# Digests of what documents were recognised by that a file no longer has: paths, folders, Message-IDs, texts.
_FORMER_NAMES = (
    "CREATE TABLE former_names (document TEXT, name BLOB, PRIMARY KEY (document, name)) WITHOUT ROWID",
    "CREATE INDEX former_names_name ON former_names (name)",
)

# Refused paraphrases are no longer judged.
_NO_ALIASES = (
    "DROP VIEW IF EXISTS intact_aliases",
    "DROP TABLE IF EXISTS aliases",
    "DELETE FROM jobs WHERE kind = 'judge'",
)

# Adapters are no longer trained, nor KV nodes mirrored.
_NO_TRAINING = (
    "DELETE FROM jobs WHERE kind = 'train'",
    "DELETE FROM meta WHERE name IN ('adapter.trained', 'forget.mirrors')",
)

# By what a change of a file is noticed that left its size and mtime; files of before are read once more.
_STATES = (
    "ALTER TABLE files ADD COLUMN ctime_ns INTEGER NOT NULL DEFAULT -1",
    "ALTER TABLE files ADD COLUMN digest BLOB NOT NULL DEFAULT x''",
)

# The tables that hold, or are looked up by, what was made of documents: nothing is added that rests on what was read
# before something was forgotten. See `Ledger.renew`.
DERIVED: Final = (
    "answers", "question_vectors", "verifications", "notices", "refresh_candidates", "rejected_answers", "history",
    "retrievals", "question_documents", "predictions", "jobs", "job_outputs", "kv_nodes", "kv_ghosts",
)  # fmt: skip

# The documents that a question was ever answered from, by its key (its number in the history where it has none): until
# no row of it is left.
_QUESTION_DOCUMENTS = (
    "CREATE TABLE question_documents (key BLOB, document TEXT, PRIMARY KEY (key, document)) WITHOUT ROWID",
    *(
        f"""CREATE TRIGGER {table}_documents_delete AFTER DELETE ON {table} BEGIN
        DELETE FROM question_documents WHERE key = {key} AND NOT EXISTS (SELECT 1 FROM history WHERE key = {key})
        AND NOT EXISTS (SELECT 1 FROM answers WHERE key = {key})
        AND NOT EXISTS (SELECT 1 FROM rejected_answers WHERE key = {key}); END"""
        for table, key in (
            ("history", "coalesce(old.key, CAST(old.id AS BLOB))"),
            ("answers", "old.key"),
            ("rejected_answers", "old.key"),
        )
    ),
    *(
        f"""CREATE TRIGGER {table}_current BEFORE INSERT ON {table}
        WHEN NOT is_current((SELECT value FROM meta WHERE name = 'forget.epoch')) BEGIN SELECT RAISE(IGNORE); END"""
        for table in DERIVED
    ),
)

# Answers limited to a collection may name places and senders of others.
_VIEWS = ("""DELETE FROM answers WHERE scope LIKE '%"collection": "%'""",)

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    _FIRST, _KV, _RETRIEVED, _BANK, _IDLE_RUN, _BATTERY, _PAYS, _RUNS, (*_NAMES, *_ANSWERS),
    (*_PEOPLE, *_LINKS, *_REREAD),
    _PROVENANCE, _READ, _CHECKSUMS, (), _TITLES, _CHANGES, _FORGOTTEN, _NO_ALIASES, _NO_TRAINING, _STATES,
    (*_VIEWS, *_QUESTION_DOCUMENTS), _FORMER_NAMES,
)  # fmt: skip
