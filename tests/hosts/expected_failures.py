"""What fails today, and why. A step that is named here and passes, or fails with other words, fails the run: its line is removed then."""

import dataclasses


@dataclasses.dataclass
class Expected:
    """`words` stand in what the failure says; it needs a long turn of so many seconds."""
    reason: str
    words: str
    seconds: float = 0


EXPECTED_FAILURES = {}
