"""A scripted model on loopback that is slow: it answers every prompt in OpenAI Chat Completions, a word every few seconds.

usage: slow_model.py SECONDS   (prints its base URL and serves until it is ended; slow.py has it as a thread of its own)
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORD_SECONDS = 3


def chunk(model, delta, finish=None):
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": choices}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path != "/v1/chat/completions" or not body.get("stream"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        begun, number = time.monotonic(), 0
        try:
            self.tell(chunk(body["model"], {"role": "assistant", "content": "slowly:"}))
            while (left := begun + self.server.seconds - time.monotonic()) > 0:
                time.sleep(min(WORD_SECONDS, left))
                number += 1
                self.tell(chunk(body["model"], {"content": f" word-{number}"}))
            self.tell(chunk(body["model"], {"content": " and-done"}))
            self.tell(chunk(body["model"], {}, "stop"))
            usage = {"prompt_tokens": 20, "completion_tokens": number, "total_tokens": 20 + number}
            self.tell({**chunk(body["model"], {}), "choices": [], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")
        except ConnectionError:
            # Whoever asked is gone; the server's calls tell of it.
            pass

    def tell(self, event):
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, *_):
        """Nothing: every request would be a line."""


class SlowModel(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, seconds):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seconds = seconds
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def base_url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"

    def settings(self):
        """What a server is started with so that this is its model."""
        values = {"model": "slow", "model_provider": "slow", "model_providers.slow.base_url": self.base_url,
                  "model_providers.slow.wire_api": "chat"}
        return [word for key, value in values.items() for word in ("-c", f"{key}={json.dumps(value)}")]


if __name__ == "__main__":
    print(SlowModel(float(sys.argv[1])).base_url, flush=True)
    threading.Event().wait()
