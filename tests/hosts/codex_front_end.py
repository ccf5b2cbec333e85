"""A front end of Codex's app-server that is a person: runs one turn, approves the question that says so, and denies the others.

usage: codex_front_end.py CODEX PROMPT
"""

import json
import os
import subprocess
import sys


def answer(params):
    if "touch approves" in params.get("message", ""):
        return {"action": "accept", "content": {"decision": "approve"}}
    return {"action": "decline"}


def main(codex, prompt):
    with subprocess.Popen([codex, "app-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        def tell(**message):
            print(json.dumps(message), file=server.stdin, flush=True)

        def messages():
            for line in server.stdout:
                message = json.loads(line)
                print(line.strip()[:300])
                if message.get("method") == "mcpServer/elicitation/request":
                    tell(id=message["id"], result=answer(message["params"]))
                yield message

        reading = messages()

        def ask(number, method, params):
            tell(id=number, method=method, params=params)
            told = next(message for message in reading if message.get("id") == number and "method" not in message)
            return told["result"]

        ask(1, "initialize", {"clientInfo": {"name": "front-end", "title": "front end", "version": "1"}, "capabilities": None})
        tell(method="initialized")
        started = ask(2, "thread/start", {"cwd": os.getcwd(), "approvalPolicy": "on-request"})
        thread = started["thread"]["id"]
        ask(3, "turn/start", {"threadId": thread, "input": [{"type": "text", "text": prompt, "text_elements": []}]})
        next(message for message in reading if message.get("method") == "turn/completed")
        server.stdin.close()
        for line in server.stdout:
            print(line.strip()[:300])
    sys.exit(server.returncode)


main(*sys.argv[1:])
