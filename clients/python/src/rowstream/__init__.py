"""A client of Rowstream: rows from an HTTP stream, each once, and an exception if one is missing.

`rowstream.rows(url)` reads a list, and `rowstream.follow(url)` a live tail. `rowstream.aio` has the same for
asyncio.
"""

from . import aio
from ._errors import IncompleteStream, RowstreamError
from ._protocol import Progress
from ._sync import Rows, Stream, follow, rows
from ._values import Row

__all__ = ["IncompleteStream", "Progress", "Row", "Rows", "RowstreamError", "Stream", "aio", "follow", "rows"]
