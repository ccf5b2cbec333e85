"""Stands between a client and the server and writes down each line of both directions: the client is told that this is the
program. usage: record.py ARGUMENTS..., with the real program in APPSERVER_PROGRAM and the file in APPSERVER_TRACE."""

import os
import signal
import subprocess
import sys
import threading

program = subprocess.Popen([os.environ["APPSERVER_PROGRAM"], *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
signal.signal(signal.SIGTERM, lambda *_: program.terminate())
trace, lock = open(os.environ["APPSERVER_TRACE"], "ab"), threading.Lock()


def carry(source, sink, way):
    for line in source:
        with lock:
            trace.write(way + b" " + line)
            trace.flush()
        try:
            sink.write(line)
            sink.flush()
        except OSError:
            break
    try:
        sink.close()
    except OSError:
        pass


threading.Thread(target=carry, args=(sys.stdin.buffer, program.stdin, b"client"), daemon=True).start()
carry(program.stdout, sys.stdout.buffer, b"server")
sys.exit(program.wait())
