"""What fails today, with the reason. A step that is named here and passes is a failure: remove its line then."""

EXPECTED_FAILURES = {
}
