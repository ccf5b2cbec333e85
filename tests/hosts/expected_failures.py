"""What fails today: the reason, and for which length of the long turn. A step that is named here and passes fails the run, so that its
line is removed."""

UNKNOWN_HOST = "a host without a progress token whose name the server does not know gives the call up after 60 s, and the turn ends with it"

# (host, step): (reason, the least seconds of the long turn)
EXPECTED_FAILURES = {
    ("cline", "long"): (UNKNOWN_HOST, 60),
    ("continue_cli", "long"): (UNKNOWN_HOST, 60),
}
