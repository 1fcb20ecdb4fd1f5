"""Logs of a worker are handled by the handlers of its host, unless its modules set up logging of their own."""

import copy
import logging
import pickle
from collections.abc import Callable, Mapping


def forward_logs(send: Callable[[bytes], None], levels: Mapping[str, int]) -> None:
    """Send what is logged from now on to the host.

    Args:
        send: Takes each record, pickled.
        levels: The levels of the host's loggers by name, that of the root under the empty name.
    """
    root = logging.getLogger()
    if root.handlers:
        return
    root.addHandler(_Forwarding(send))
    for name, level in levels.items():
        logging.getLogger(name or None).setLevel(level)


class _Forwarding(logging.Handler):
    """Makes records plain, as `logging.handlers.QueueHandler` does, and sends them."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        super().__init__()
        self._send = send
        self._formatter = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record.

        Args:
            record: The record.
        """
        try:
            plain = copy.copy(record)
            plain.msg, plain.args = record.getMessage(), None
            if record.exc_info and not record.exc_text:
                plain.exc_text = self._formatter.formatException(record.exc_info)
            plain.exc_info = None
            self._send(_pickled(plain))
        except Exception:
            self.handleError(record)


def _pickled(record: logging.LogRecord) -> bytes:
    try:
        return pickle.dumps(record.__dict__)
    except Exception:
        # What was given as `extra` may be anything.
        known = logging.makeLogRecord({}).__dict__
        return pickle.dumps({name: value for name, value in record.__dict__.items() if name in known})
