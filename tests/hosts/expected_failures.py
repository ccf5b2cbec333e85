"""What fails today, and why. A step that is named here and passes, or fails with other words, fails the run: its line is removed then."""

import dataclasses


@dataclasses.dataclass
class Expected:
    """`words` stand in what the failure says; it needs a long turn of so many seconds."""
    reason: str
    words: str
    seconds: float = 0


UNKNOWN_HOST = Expected("a host without a progress token whose name the server does not know gives the call up after 60 s, and the turn "
                        "ends with it", "timed out", 60)

EXPECTED_FAILURES = {
    ("cline", "long"): UNKNOWN_HOST,
    ("continue_cli", "long"): UNKNOWN_HOST,
}
