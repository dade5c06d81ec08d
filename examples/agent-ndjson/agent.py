"""An agent behind an HTTP address, with nothing but Python: it answers one call per turn with lines of JSON."""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def answer(call):
    if call["round"] > 1:  # called again with the answer of a person
        yield {"type": "text", "text": f"It is sunny in {call['answers'][0].get('text', 'no city')}."}
    elif call["text"].startswith("weather"):
        yield {"type": "input_request", "request_id": "city", "input_type": "text", "text": "Which city?"}
    else:
        for word in f"You said: {call['text']}".split(" "):
            time.sleep(0.05)
            yield {"type": "text", "text": word + " "}
    yield {"type": "done"}  # without it the answer counts as interrupted


class Agent(BaseHTTPRequestHandler):
    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.end_headers()
        for line in answer(call):
            self.wfile.write(json.dumps(line).encode() + b"\n")


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9000), Agent).serve_forever()
