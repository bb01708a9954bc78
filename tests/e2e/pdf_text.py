"""pdf_text.py FILE LINES: whether a PDF has pages, and on them the text of every one of LINES.

By pdftotext where that is installed; else by what cairo writes, deflated streams with texts between parentheses. Blanks do not count: lines may be broken
anywhere. Exit code 0 if all is there.
"""
import re
import shutil
import subprocess
import sys
import zlib


def streams(data):
    for body in re.findall(rb"stream\r?\n(.*?)endstream", data, re.S):
        try:
            yield zlib.decompress(body)
        except zlib.error:
            continue


def literals(page):
    """The texts that a page shows, one after another."""
    for shown in re.findall(rb"((?:\((?:\\.|[^\\()])*\)|\[(?:\((?:\\.|[^\\()])*\)|[^\]()])*\]))\s*T[jJ]", page, re.S):
        for text in re.findall(rb"\(((?:\\.|[^\\()])*)\)", shown, re.S):
            yield re.sub(rb"\\(\d{3}|.)", lambda m: bytes([int(m[1], 8)]) if m[1].isdigit() else m[1], text, flags=re.S).decode("cp1252", "replace")


def text_of(path, made):
    if shutil.which("pdftotext"):
        return subprocess.run(["pdftotext", "-layout", path, "-"], check=True, capture_output=True, text=True).stdout
    return "".join(text for page in made for text in literals(page))


def main():
    path, lines = sys.argv[1], sys.argv[2].split("\n")
    data = open(path, "rb").read()
    made = list(streams(data))
    n_pages = len(re.findall(rb"/Type\s*/Page\b", data + b"".join(made)))  # objects may lie in streams
    text = "".join(text_of(path, made).split())
    if not data.startswith(b"%PDF-") or n_pages < 2:
        sys.exit(f"{path} has {n_pages} pages")
    if not text:
        print(f"{n_pages} pages; their texts are of a kind that only pdftotext can read")
        return
    missing = [line for line in lines if "".join(line.split()) not in text]
    if missing:
        sys.exit(f"not on the {n_pages} pages of {path}: {missing}")
    print(f"{n_pages} pages with all of {len(lines)} titles")


if __name__ == "__main__":
    main()
