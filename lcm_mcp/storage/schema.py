"""The shape of the database file, and how an older file becomes a newer one.

All DDL stands here, as numbered migrations that each bump user_version in the transaction that
applies them. Rows are append-only: the file itself refuses to change one. Nothing is asked and
nothing is written when a file is up to date, and a file of a newer version is refused untouched.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

APPLICATION_ID = 0x4C434D31  # "LCM1", so that `file` and we know whose database it is
PAGE_BYTES = 8192
CHECKSUM_BYTES = 8
"""Reserved at the end of each page for its checksum; can only be chosen before the first write."""

ROW_IS_NEVER_EDITED = """CREATE TRIGGER row_is_never_edited BEFORE UPDATE ON row
    BEGIN SELECT RAISE(ABORT, 'rows are never edited'); END"""

_FIRST: tuple[str, ...] = (
    # Texts of rows and of summaries, once each; a row, a tier or (later) an index points here.
    """CREATE TABLE text(
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        enc INTEGER NOT NULL DEFAULT 0,
        body TEXT NOT NULL) STRICT""",
    # What a derived text alone cannot give back: structure, reasoning, signatures, odd characters.
    "CREATE TABLE payload(text INTEGER PRIMARY KEY REFERENCES text(id), parts BLOB NOT NULL) STRICT",
    """CREATE TABLE image(
        id INTEGER PRIMARY KEY,
        sha256 TEXT NOT NULL UNIQUE,
        media_type TEXT NOT NULL, width INTEGER, height INTEGER,
        data BLOB NOT NULL) STRICT""",
    # leaf is the last row of the active path; next_* number what comes next in this
    # session; active_at is when its newest row was written, at its source.
    """CREATE TABLE session(
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        title TEXT, project TEXT,
        source TEXT NOT NULL, native_id TEXT,
        strategy TEXT,
        parent INTEGER REFERENCES session(id), link TEXT CHECK(link IN ('fork', 'child')), opener INTEGER,
        leaf INTEGER NOT NULL DEFAULT 0,
        next_seq INTEGER NOT NULL DEFAULT 1,
        next_node INTEGER NOT NULL DEFAULT 1,
        next_cut INTEGER NOT NULL DEFAULT 1,
        created_at INTEGER NOT NULL,
        active_at INTEGER NOT NULL DEFAULT 0,
        UNIQUE(source, native_id)) STRICT""",
    "CREATE INDEX session_by_project ON session(project, active_at)",
    "CREATE INDEX session_by_parent ON session(parent) WHERE parent IS NOT NULL",
    # prev is the row before on the path, 0 before the first; cum_* are totals along the path;
    # results counts the row's tool results, whatever its role (some providers send them as the user's).
    """CREATE TABLE row(
        session INTEGER NOT NULL REFERENCES session(id),
        seq INTEGER NOT NULL,
        prev INTEGER NOT NULL CHECK(prev < seq),
        unit INTEGER NOT NULL, round INTEGER NOT NULL,
        role TEXT NOT NULL, entry_id TEXT, message_id TEXT,
        at INTEGER NOT NULL, results INTEGER NOT NULL, digest BLOB NOT NULL,
        bytes INTEGER NOT NULL, fixed INTEGER NOT NULL,
        cum_bytes INTEGER NOT NULL, cum_inputs INTEGER NOT NULL, cum_fixed INTEGER NOT NULL,
        text INTEGER NOT NULL REFERENCES text(id),
        PRIMARY KEY(session, seq)) STRICT, WITHOUT ROWID""",
    ROW_IS_NEVER_EDITED,
    "CREATE INDEX row_by_text ON row(text)",
    "CREATE UNIQUE INDEX row_by_entry ON row(session, entry_id) WHERE entry_id IS NOT NULL",
    "CREATE INDEX row_where_path_jumps ON row(session, seq, prev) WHERE prev <> seq - 1",
    # Other content that came under an entry_id already taken; the first stays the row.
    """CREATE TABLE variant(
        session INTEGER NOT NULL, seq INTEGER NOT NULL, digest BLOB NOT NULL,
        role TEXT NOT NULL, at INTEGER, content BLOB NOT NULL,
        PRIMARY KEY(session, seq, digest)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE call(
        session INTEGER NOT NULL, id TEXT NOT NULL, seq INTEGER NOT NULL, n INTEGER NOT NULL,
        PRIMARY KEY(session, id, seq, n)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE answer(
        session INTEGER NOT NULL, id TEXT NOT NULL, call_seq INTEGER NOT NULL, call_n INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        PRIMARY KEY(session, id, call_seq, call_n, seq)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE node(
        session INTEGER NOT NULL REFERENCES session(id),
        id INTEGER NOT NULL,
        depth INTEGER NOT NULL CHECK(depth BETWEEN 0 AND 8),
        first INTEGER NOT NULL, last INTEGER NOT NULL CHECK(first <= last),
        rows INTEGER NOT NULL, source_tokens INTEGER NOT NULL, made_at INTEGER NOT NULL,
        PRIMARY KEY(session, id)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX node_by_last ON node(session, last, first)",
    "CREATE INDEX node_by_first ON node(session, first, depth DESC, id)",
    """CREATE TABLE edge(
        session INTEGER NOT NULL, node INTEGER NOT NULL, n INTEGER NOT NULL CHECK(n < 8),
        child INTEGER NOT NULL,
        PRIMARY KEY(session, node, n),
        FOREIGN KEY(session, node) REFERENCES node(session, id),
        FOREIGN KEY(session, child) REFERENCES node(session, id)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX edge_by_child ON edge(session, child)",
    """CREATE TABLE tier(
        session INTEGER NOT NULL, node INTEGER NOT NULL,
        kind TEXT NOT NULL CHECK(kind IN ('primary', 'rich')),
        text INTEGER NOT NULL REFERENCES text(id),
        tokens INTEGER NOT NULL, level INTEGER NOT NULL CHECK(level BETWEEN 1 AND 3), model TEXT NOT NULL,
        PRIMARY KEY(session, node, kind),
        FOREIGN KEY(session, node) REFERENCES node(session, id)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX tier_by_text ON tier(text)",
    """CREATE TABLE cut(
        session INTEGER NOT NULL REFERENCES session(id),
        n INTEGER NOT NULL,
        strategy TEXT NOT NULL, tail_from INTEGER NOT NULL,
        shape BLOB NOT NULL, prefix_sha256 TEXT NOT NULL,
        window INTEGER NOT NULL, made_at INTEGER NOT NULL,
        PRIMARY KEY(session, n)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE lease(
        session INTEGER PRIMARY KEY REFERENCES session(id),
        token TEXT NOT NULL, holder TEXT NOT NULL, expires_at INTEGER NOT NULL) STRICT""",
    """CREATE TABLE observation(
        session INTEGER NOT NULL REFERENCES session(id),
        n INTEGER NOT NULL,
        prepared TEXT NOT NULL, made_at INTEGER NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY(session, n)) STRICT, WITHOUT ROWID""",
)

_ROLLING: tuple[str, ...] = (
    # The provider and model last named for the session; cuts of rolling below rolling_from were dropped.
    "ALTER TABLE session ADD COLUMN provider TEXT",
    "ALTER TABLE session ADD COLUMN model TEXT",
    "ALTER TABLE session ADD COLUMN rolling_from INTEGER NOT NULL DEFAULT 1",
    # Rows that the owner wants quoted wherever a request no longer shows them.
    """CREATE TABLE pin(
        session INTEGER NOT NULL, seq INTEGER NOT NULL, pinned_at INTEGER NOT NULL,
        PRIMARY KEY(session, seq),
        FOREIGN KEY(session, seq) REFERENCES row(session, seq)) STRICT, WITHOUT ROWID""",
    # What a preparation weighed (bytes, and tokens that no ratio changes) beside what its provider counted.
    "ALTER TABLE observation ADD COLUMN model TEXT",
    "ALTER TABLE observation ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE observation ADD COLUMN fixed INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE observation ADD COLUMN input_tokens INTEGER",
    "ALTER TABLE observation ADD COLUMN cached_tokens INTEGER",
    "CREATE INDEX observation_by_prepared ON observation(session, prepared)",
    "CREATE INDEX observation_measured ON observation(session, n) WHERE input_tokens IS NOT NULL",
)

_INDEX: tuple[str, ...] = (
    # The trigrams of casefolded texts, and nothing else: no copy of a text, no places. Fed in slices.
    """CREATE VIRTUAL TABLE gram USING fts5(
        folded, content='', detail=none, columnsize=0, tokenize='trigram case_sensitive 1')""",
    "CREATE VIRTUAL TABLE gram_instance USING fts5vocab(gram, 'instance')",
    # Texts up to id `upto` are indexed, and of the next one so many characters; unicode is the version of
    # the tables that folded them, 'mixed' where there were several.
    """CREATE TABLE gram_state(
        one INTEGER PRIMARY KEY CHECK(one = 1),
        upto INTEGER NOT NULL, characters INTEGER NOT NULL, unicode TEXT) STRICT""",
    "INSERT INTO gram_state VALUES(1, 0, 0, NULL)",
    # The text of the last row under a node: where the node's summary stands among the rows of all sessions.
    "ALTER TABLE node ADD COLUMN anchor INTEGER",
    """UPDATE node SET anchor =
        (SELECT text FROM row WHERE row.session = node.session AND row.seq = node.last)""",
    "CREATE INDEX node_by_anchor ON node(anchor, id, session)",
)

_FOLLOWED: tuple[str, ...] = (
    # A transcript file that is read on. offset and line: what was taken in, in complete lines; memory: what
    # the format's reader keeps of them; prefix: a digest of them. size, mtime and identity are the file's
    # when it was last read to its end; size is -1 while there is more. session is the key it was imported
    # under, '' for the file's own. version counts how often the file was written anew; source tells files
    # of one session apart whose entries have no ids.
    """CREATE TABLE followed(
        id INTEGER PRIMARY KEY,
        path TEXT NOT NULL, session TEXT NOT NULL,
        format TEXT NOT NULL, fold INTEGER NOT NULL,
        source INTEGER NOT NULL DEFAULT 0, version INTEGER NOT NULL DEFAULT 1,
        offset INTEGER NOT NULL DEFAULT 0, line INTEGER NOT NULL DEFAULT 0,
        memory BLOB, prefix BLOB NOT NULL DEFAULT x'',
        size INTEGER NOT NULL DEFAULT -1, mtime INTEGER NOT NULL DEFAULT 0, identity TEXT NOT NULL DEFAULT '',
        trouble TEXT,
        UNIQUE(path, session)) STRICT""",
    """CREATE TABLE followed_session(
        session INTEGER NOT NULL REFERENCES session(id), file INTEGER NOT NULL REFERENCES followed(id),
        PRIMARY KEY(session, file)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX followed_session_by_file ON followed_session(file)",
    # Entries without an id of their own: by content, the last version of the file that had it, and its place.
    """CREATE TABLE followed_line(
        session INTEGER NOT NULL, source INTEGER NOT NULL, digest BLOB NOT NULL,
        version INTEGER NOT NULL, ordinal INTEGER NOT NULL, entry_id TEXT NOT NULL,
        PRIMARY KEY(session, source, digest, version, ordinal)) STRICT, WITHOUT ROWID""",
    # Every folder below one that was imported; mtime is that of its last look, 0 for not yet.
    """CREATE TABLE followed_folder(
        path TEXT NOT NULL, session TEXT NOT NULL,
        format TEXT NOT NULL, fold INTEGER NOT NULL, mtime INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY(path, session)) STRICT, WITHOUT ROWID""",
)


_BRANCHES: tuple[str, ...] = (
    # The row of the parent that tells what came of a fork or child; opener is the row it started from.
    "ALTER TABLE session ADD COLUMN outcome INTEGER",
    # How many numbers below next_seq name no row: a fork leaves out what was removed, and renumbers nothing.
    "ALTER TABLE session ADD COLUMN unused INTEGER NOT NULL DEFAULT 0",
)


_SPENDING: tuple[str, ...] = (
    # What was paid for a text; micro_usd is NULL where no price is known.
    "ALTER TABLE tier ADD COLUMN input_tokens INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE tier ADD COLUMN output_tokens INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE tier ADD COLUMN micro_usd INTEGER DEFAULT 0",
    # Calls of a UTC day. unsettled are tokens of calls under way, and of those that nobody can count any
    # more; unpriced are calls without a known price.
    """CREATE TABLE spend(
        day TEXT NOT NULL, session INTEGER NOT NULL REFERENCES session(id), summarizer TEXT NOT NULL,
        calls INTEGER NOT NULL, unsettled INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
        micro_usd INTEGER NOT NULL, unpriced INTEGER NOT NULL,
        PRIMARY KEY(day, session, summarizer)) STRICT, WITHOUT ROWID""",
    # Summarizers that failed when last called, under a mark of their settings; open where opened_at is set,
    # and then not called before again_at.
    """CREATE TABLE breaker(
        mark TEXT PRIMARY KEY, summarizer TEXT NOT NULL, reason TEXT NOT NULL, faults INTEGER NOT NULL,
        opened_at INTEGER, again_at INTEGER NOT NULL) STRICT, WITHOUT ROWID""",
)


_FILES: tuple[str, ...] = (
    # A large tool result whose call named a path: what it is, and where in its row's text its body stands.
    """CREATE TABLE file(
        session INTEGER NOT NULL, id INTEGER NOT NULL,
        seq INTEGER NOT NULL, part INTEGER NOT NULL,
        path TEXT NOT NULL, kind TEXT NOT NULL, content TEXT NOT NULL,
        summary TEXT NOT NULL, head TEXT NOT NULL,
        start INTEGER NOT NULL, characters INTEGER NOT NULL,
        PRIMARY KEY(session, id),
        FOREIGN KEY(session, seq) REFERENCES row(session, seq)) STRICT, WITHOUT ROWID""",
    "CREATE UNIQUE INDEX file_by_row ON file(session, seq, part)",
    "CREATE INDEX file_by_content ON file(content)",
    # Large results of calls that named none.
    """CREATE TABLE large_inline(
        session INTEGER NOT NULL, seq INTEGER NOT NULL, part INTEGER NOT NULL, characters INTEGER NOT NULL,
        PRIMARY KEY(session, seq, part),
        FOREIGN KEY(session, seq) REFERENCES row(session, seq)) STRICT, WITHOUT ROWID""",
    # Texts from `next` to `upto` were stored before there were handles, and are still to be looked through.
    """CREATE TABLE file_state(
        one INTEGER PRIMARY KEY CHECK(one = 1), next INTEGER NOT NULL, upto INTEGER NOT NULL) STRICT""",
    "INSERT INTO file_state SELECT 1, 1, coalesce(max(id), 0) FROM text",
)


_KEEPING: tuple[str, ...] = (
    # A file that is not read on any more since a session that it fed was forgotten.
    "ALTER TABLE followed ADD COLUMN stopped INTEGER NOT NULL DEFAULT 0",
)

_SUPERSEDED: tuple[str, ...] = (
    # Texts of a node before it was made again: version n of it is what cuts up to number upto_cut show.
    """CREATE TABLE superseded(
        session INTEGER NOT NULL, node INTEGER NOT NULL, n INTEGER NOT NULL, kind TEXT NOT NULL,
        upto_cut INTEGER NOT NULL, superseded_at INTEGER NOT NULL,
        text INTEGER NOT NULL REFERENCES text(id),
        tokens INTEGER NOT NULL, level INTEGER NOT NULL, model TEXT NOT NULL,
        PRIMARY KEY(session, node, n, kind),
        FOREIGN KEY(session, node) REFERENCES node(session, id)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX superseded_by_text ON superseded(text)",
)

_FORGOTTEN: tuple[str, ...] = (
    # Numbers of forgotten sessions, so that none comes to mean another one.
    "CREATE TABLE forgotten(id INTEGER PRIMARY KEY) STRICT",
)

_WORDS: tuple[str, ...] = (
    # The stems of words of texts, and nothing else. Fed in slices; texts up to id `upto` are in it.
    """CREATE VIRTUAL TABLE word USING fts5(
        words, content='', detail=none, columnsize=0, tokenize='porter unicode61')""",
    "CREATE VIRTUAL TABLE word_instance USING fts5vocab(word, 'instance')",
    "CREATE TABLE word_state(one INTEGER PRIMARY KEY CHECK(one = 1), upto INTEGER NOT NULL) STRICT",
    "INSERT INTO word_state VALUES(1, 0)",
)

_TASKS: tuple[str, ...] = (
    # Nodes that agents were asked to write; id is the lease, text one that waits for the rest of its batch.
    """CREATE TABLE task(
        id TEXT PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session(id), batch TEXT NOT NULL,
        depth INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        expires_at INTEGER NOT NULL, text TEXT, model TEXT,
        UNIQUE(session, depth, first, last)) STRICT, WITHOUT ROWID""",
)

_PACKED: tuple[str, ...] = (
    # Payloads of texts from `next` to `upto` were stored before they were deflated.
    """CREATE TABLE payload_state(
        one INTEGER PRIMARY KEY CHECK(one = 1), next INTEGER NOT NULL, upto INTEGER NOT NULL) STRICT""",
    "INSERT INTO payload_state SELECT 1, 1, coalesce(max(text), 0) FROM payload",
)

_VECTORS: tuple[str, ...] = (
    # What the texts of rows are about, in bits, where semantic search is on; a plain table, so that
    # nothing is missing where what made them is not. Rows of texts up to id `upto` have bits of this model.
    "CREATE TABLE vector(text INTEGER PRIMARY KEY, bits BLOB NOT NULL) STRICT",
    """CREATE TABLE vector_state(
        one INTEGER PRIMARY KEY CHECK(one = 1), upto INTEGER NOT NULL, model TEXT) STRICT""",
    "INSERT INTO vector_state VALUES(1, 0, NULL)",
)

_FED: tuple[str, ...] = (
    # Whether a followed file feeds a session: those that feed none are looked at for every project.
    "ALTER TABLE followed ADD COLUMN fed INTEGER NOT NULL DEFAULT 0",
    "UPDATE followed SET fed = 1 WHERE id IN (SELECT file FROM followed_session)",
    "CREATE INDEX followed_unfed ON followed(id) WHERE NOT fed",
    """CREATE TRIGGER followed_is_fed AFTER INSERT ON followed_session
        BEGIN UPDATE followed SET fed = 1 WHERE id = new.file AND NOT fed; END""",
    """CREATE TRIGGER followed_is_fed_no_more AFTER DELETE ON followed_session
        WHEN NOT EXISTS(SELECT 1 FROM followed_session WHERE file = old.file)
        BEGIN UPDATE followed SET fed = 0 WHERE id = old.file; END""",
)

MIGRATIONS: tuple[Sequence[str], ...] = (
    _FIRST,
    _ROLLING,
    _INDEX,
    _FOLLOWED,
    _BRANCHES,
    _SPENDING,
    _KEEPING,
    _SUPERSEDED,
    _FILES,
    _FORGOTTEN,
    _WORDS,
    _TASKS,
    _PACKED,
    _VECTORS,
    _FED,
)
"""MIGRATIONS[n] takes a file from version n to version n + 1."""

VERSION = len(MIGRATIONS)


def version_of(db: apsw.Connection) -> int:
    """The schema version of the file; 0 for one that holds no schema yet."""
    return int(db.pragma("user_version"))


def is_ours(db: apsw.Connection) -> bool:
    """Whether the file carries our mark, or is still empty and can become ours."""
    # Emptiness first: another process may make the schema, mark included, between the two questions.
    if not db.execute("SELECT EXISTS(SELECT 1 FROM sqlite_schema)").get:
        return True
    return db.pragma("application_id") == APPLICATION_ID


def migrate(db: apsw.Connection) -> None:
    """Bring the file to VERSION, each step in its own transaction; another process may have been first."""
    while version_of(db) < VERSION:
        with db:
            found = version_of(db)  # read again under the write lock
            if found >= VERSION:
                return
            for statement in MIGRATIONS[found]:
                db.execute(statement)
            db.pragma("application_id", APPLICATION_ID)
            db.pragma("user_version", found + 1)
