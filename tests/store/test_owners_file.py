"""The file of a folder that notes its namespaces, where something is wrong with what it is given."""

from pathlib import Path
from typing import Any

import pytest

from taskyard_server.store.owners_file import Owned, OwnersFile
from taskyard_server.store.port import StoreError

ROW = Owned(1, "shop", 1, 0.0, needs_owner=False, is_owned=True)


def test_what_could_not_be_noted_leaves_nothing_behind_and_the_next_is_noted(tmp_path: Path) -> None:
    file = OwnersFile(str(tmp_path))
    file.open(0.0)
    no_text: Any = object()
    with pytest.raises(StoreError):
        file.note(1.0, 2, [ROW, ROW._replace(number=2, name=no_text)])
    file.note(2.0, 3, [ROW._replace(number=3)])
    file.close()
    assert file.open(0.0) == (2.0, 3, [ROW._replace(number=3)])
    file.close()
