"""Hints to the compiler about classes. Where the core is not compiled this says nothing.

An `acyclic` class is not looked at by the garbage collector: nothing that its objects refer to leads back to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:

    def mypyc_attr(**_):
        """Change nothing."""
        return lambda of: of


__all__ = ["mypyc_attr"]
