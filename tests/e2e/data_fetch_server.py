"""A web server for data_fetch.sh: data_fetch_server.py MODE FOLDER PORT_FILE REQUESTS_FILE.

MODE: good (with ranges), norange (answers 200 with everything), cut (closes after 300,000 bytes of each answer, and after four
answers sends nothing), wrong (right length, other bytes), longer (never ends), missing (404), redirect (to file:///etc/hostname).
"""
import http.server
import os
import sys

mode, folder, port_file, requests_file = sys.argv[1:5]
n_answers = 0


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        global n_answers
        n_answers += 1
        name = os.path.basename(self.path)
        wanted = self.headers.get("Range") or "all"
        with open(requests_file, "a") as f:
            f.write("%s %s\n" % (name, wanted))
        path = os.path.join(folder, name)
        if mode == "missing" or not os.path.isfile(path):
            return self.send_error(404)
        if mode == "redirect":
            self.send_response(302)
            self.send_header("Location", "file:///etc/hostname")
            return self.end_headers()
        with open(path, "rb") as f:
            data = f.read()
        if mode == "wrong":
            data = bytes(len(data) - 1) + b"x"
        start = 0
        if wanted != "all" and mode != "norange":
            start = int(wanted.split("=")[1].rstrip("-"))
            if start >= len(data):
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", "bytes %d-%d/%d" % (start, len(data) - 1, len(data)))
        else:
            self.send_response(200)
        if mode != "longer":
            self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        self.send_body(data[start:])

    def send_body(self, data):
        try:
            if mode == "cut":
                self.wfile.write(data[: 300000 if n_answers <= 4 else 0])
                self.wfile.flush()
            elif mode == "longer":
                while True:
                    self.wfile.write(data)
            else:
                self.wfile.write(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        self.close_connection = True


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(port_file + ".tmp", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(port_file + ".tmp", port_file)
server.serve_forever()
