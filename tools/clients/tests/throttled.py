"""Runs a command with an endpoint of Lambda that fails the first attempt of each update: with `Throttled` or `Internal`.

    throttled.py COMMAND ARGUMENT...

The second attempt reaches the endpoint in VZERO_TEST_LAMBDA, if it has the same payload.
"""

import itertools
import json
import os
import subprocess
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

attempted = set()
errors = itertools.cycle(["Throttled", "Internal"])


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if body not in attempted:
            attempted.add(body)
            error = {"errorType": next(errors), "errorMessage": "try again"}
            return self.answer(200, {"X-Amz-Function-Error": "Unhandled"}, json.dumps(error).encode())
        request = urllib.request.Request(os.environ["VZERO_TEST_LAMBDA"] + self.path, body)
        with urllib.request.urlopen(request) as response:
            names = ["X-Amz-Function-Error", "X-Amz-Executed-Version"]
            headers = {name: response.headers[name] for name in names if response.headers[name]}
            self.answer(response.status, headers, response.read())

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
Thread(target=server.serve_forever, daemon=True).start()
environment = {**os.environ, "AWS_ENDPOINT_URL_LAMBDA": f"http://127.0.0.1:{server.server_port}"}
sys.exit(subprocess.run(sys.argv[1:], env=environment, check=False).returncode)
