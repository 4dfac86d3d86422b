"""Writes `_sync.py`, the synchronous client, from `aio.py` by substituting words.

Usage: generate.py
"""

import re
from pathlib import Path

PACKAGE = Path(__file__).parent / "src/rowstream"
SOURCE, GENERATED = PACKAGE / "aio.py", PACKAGE / "_sync.py"
DOCSTRING = '"""The synchronous client. Generated; edit aio.py, and run generate.py."""'
WORDS = {
    "AsyncClient": "Client",
    "AsyncGenerator": "Generator",
    "AsyncIterator": "Iterator",
    "AsyncToken": "Token",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "acall_token": "call_token",
    "aclose": "close",
    "aclosing": "closing",
    "aiter_bytes": "iter_bytes",
    "aiter_raw": "iter_raw",
    "anext": "next",
    "asyncio": "time",
}


def synchronous(source: str) -> str:
    """The synchronous form of a module."""
    text = DOCSTRING + source[source.index("\n") :]
    text = re.sub(r"\b(async|await) ", "", text)
    for word, substitute in WORDS.items():
        text, count = re.subn(rf"\b{word}\b", substitute, text)
        if count == 0:
            raise ValueError(f"{SOURCE.name} has no word {word!r}: remove it from the list")
    unknown = re.search(r"\w*(async|await)\w*", text, re.IGNORECASE)
    if unknown:
        raise ValueError(f"the word {unknown[0]!r} has no substitute: add one to the list")
    return text


if __name__ == "__main__":
    GENERATED.write_text(synchronous(SOURCE.read_text(encoding="utf-8")), encoding="utf-8")
