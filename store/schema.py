"""The ledger's tables, as numbered changes: a change is added at the end and never edited once released."""

from typing import Final

_FIRST = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # What was read: one row a folder or file that was named to `pkb ingest`, one a file, one a document at its place.
    "CREATE TABLE roots (path BLOB PRIMARY KEY, collection TEXT NOT NULL, kind TEXT) WITHOUT ROWID",
    """CREATE TABLE files (
        path BLOB PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL)
        WITHOUT ROWID""",
    "CREATE INDEX files_changed ON files (mtime_ns)",
    """CREATE TABLE places (
        path BLOB NOT NULL, item INTEGER NOT NULL, document TEXT NOT NULL, message_id TEXT, lines_before INTEGER,
        collection TEXT NOT NULL, PRIMARY KEY (path, item)) WITHOUT ROWID""",
    "CREATE INDEX places_document ON places (document)",
    # Where a document stood before its file changed, until it is let go: an item below 0.
    "CREATE INDEX places_former ON places (path) WHERE item < 0",
    # Documents whose places have changed, and the collections (JSON) that LanceDB's tables still give them.
    "CREATE TABLE moved (document TEXT PRIMARY KEY, collections TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE problems (
        path BLOB NOT NULL, item INTEGER NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (path, item)) WITHOUT ROWID""",
    # `again`: to be split into chunks anew, since a message that it quotes has gone.
    """CREATE TABLE documents (
        id TEXT PRIMARY KEY, date TEXT, thread TEXT NOT NULL, chunks INTEGER NOT NULL, again INTEGER NOT NULL DEFAULT 0)
        WITHOUT ROWID""",
    "CREATE INDEX documents_thread ON documents (thread)",
    # A Message-ID ("id:...") or a subject ("topic:...") and the thread it leads to.
    "CREATE TABLE threads (key TEXT PRIMARY KEY, thread TEXT NOT NULL) WITHOUT ROWID",
    "CREATE INDEX threads_thread ON threads (thread)",
    # Which document a passage is searched in; and which ones quote it, to be read again when that document goes.
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
    # The QA bank and the history of what was asked.
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
    # A node of the tree of KV tensors. `state`: reserved (`owner` is writing its file), whole, or dying (`owner` is
    # removing it). `first`: the digest of its first sub-step. The last four: its file when it was last read whole.
    """CREATE TABLE kv_nodes (
        key BLOB PRIMARY KEY, root BLOB NOT NULL, parent BLOB NOT NULL, path BLOB NOT NULL, depth INTEGER NOT NULL,
        ids BLOB NOT NULL, first BLOB, bytes INTEGER NOT NULL, seconds REAL NOT NULL, created REAL NOT NULL,
        last_used REAL NOT NULL, uses INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL, owner TEXT,
        size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER, inode INTEGER)""",
    "CREATE INDEX kv_nodes_parent ON kv_nodes (parent, first)",
    "CREATE INDEX kv_nodes_path ON kv_nodes (path)",
    "CREATE INDEX kv_nodes_unfinished ON kv_nodes (state) WHERE state != 'whole'",
    # Nodes that somebody is loading, until they are done or the time has come.
    "CREATE TABLE kv_pins (id INTEGER PRIMARY KEY, key BLOB NOT NULL, owner TEXT NOT NULL, until REAL NOT NULL)",
    # Nodes that went for lack of room; `freed` is what had been evicted in all when one went, in bytes.
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
    # Tokens that a model was to read for a question, NULL where none did; and the ids (JSON) of the chunks retrieved.
    "ALTER TABLE asked ADD COLUMN prompt_tokens INTEGER",
    "ALTER TABLE asked ADD COLUMN reused_tokens INTEGER",
    "CREATE TABLE retrieved (asked INTEGER PRIMARY KEY REFERENCES asked (id) ON DELETE CASCADE, chunks TEXT NOT NULL)",
)

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (_FIRST, _KV, _RETRIEVED)
