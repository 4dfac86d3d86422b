"""The synchronous client is generated from that of asyncio."""

import runpy
import unittest
from pathlib import Path

GENERATE = Path(__file__).parents[1] / "generate.py"


class Generated(unittest.TestCase):
    def test_the_synchronous_client_is_that_of_asyncio(self) -> None:
        script = runpy.run_path(str(GENERATE))
        source, generated = (script[name].read_text(encoding="utf-8") for name in ("SOURCE", "GENERATED"))
        self.assertEqual(generated, script["synchronous"](source), "run `python generate.py`")


if __name__ == "__main__":
    unittest.main()
