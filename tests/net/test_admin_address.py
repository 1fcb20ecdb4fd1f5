"""Who listens at an admin socket: named by its process, also where it does not come to answer."""

import os
import socket

import pytest

from taskyard_server.net.admin_address import is_served, server_at


@pytest.fixture
def listener(tmp_path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "s"))
        yield made


def test_the_process_that_listens_is_named(listener, tmp_path):
    listener.listen()
    assert server_at(tmp_path / "s") == os.getpid()
    assert is_served(tmp_path / "s")


def test_one_that_takes_no_more_connections_is_there(listener, tmp_path):
    listener.listen(0)
    waiting = []
    try:
        while server_at(tmp_path / "s"):
            waiting.append(socket.socket(socket.AF_UNIX))
            waiting[-1].setblocking(False)
            waiting[-1].connect(str(tmp_path / "s"))
    except BlockingIOError:
        pass
    assert waiting
    assert server_at(tmp_path / "s") == 0
    for each in waiting:
        each.close()


def test_a_socket_that_was_left_behind_is_nobodys(listener, tmp_path):
    del listener
    assert server_at(tmp_path / "s") is None
    assert server_at(tmp_path / "none") is None
