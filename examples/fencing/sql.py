"""A row that an earlier task cannot overwrite: the token stands in the row, and the statement compares."""

import sqlite3

TABLE = "CREATE TABLE IF NOT EXISTS pages (url TEXT PRIMARY KEY, links INTEGER, token INTEGER NOT NULL)"

WRITE = """
    INSERT INTO pages (url, links, token) VALUES (:url, :links, :token)
    ON CONFLICT (url) DO UPDATE SET links = excluded.links, token = excluded.token
    WHERE pages.token <= excluded.token
"""


def write_links(db: sqlite3.Connection, token: int, url: str, links: int) -> bool:
    """Write a row under a fencing token. False if a later task has written it."""
    with db:
        return db.execute(WRITE, {"url": url, "links": links, "token": token}).rowcount == 1
