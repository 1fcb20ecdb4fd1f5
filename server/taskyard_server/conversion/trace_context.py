"""The format of W3C trace contexts, which calls and tasks carry."""

import re
from typing import Final

TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
