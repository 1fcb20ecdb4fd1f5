"""The writer of a SQLite store on a machine that fails: `python -I -S faulty_writer.py FAULT VALUE ROOT PATH ...`."""

import os
import resource
import sys

fault, value, root = sys.argv[1:4]
sys.path.append(root)

from taskyard_server.store.sqlite import rows as sqlite_rows  # noqa: E402
from taskyard_server.store.sqlite import writer as sqlite_writer  # noqa: E402

transact = sqlite_rows.YardRows._transact
commit = sqlite_rows.YardRows.commit


def on_small_disk(rows, write):
    """The file named by the fault says how many pages there is room for; without the ballast, a hundred more."""
    with open(value, encoding="utf-8") as file:
        pages = int(file.read())
    if not os.path.exists(rows._path + ".ballast"):
        pages += 100
    rows._db.execute(f"PRAGMA max_page_count = {pages}")
    transact(rows, write)


def ended_before_the_answer(rows, *arguments):
    """Once only: the file named by the fault is there afterwards."""
    done = commit(rows, *arguments)
    if not os.path.exists(value):
        os.close(os.open(value, os.O_CREAT))
        os._exit(9)
    return done


if fault == "small disk":
    sqlite_rows.YardRows._transact = on_small_disk
elif fault == "lost answer":
    sqlite_rows.YardRows.commit = ended_before_the_answer
elif fault == "failing disk":
    # The system refuses to write beyond this, with an error that SQLite takes for one of the disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(value), int(value)))
elif fault == "ends":
    with open(value, "a", encoding="utf-8") as file:
        file.write("x")
    os._exit(7)
sys.exit(sqlite_writer.main(sys.argv[4:]))
