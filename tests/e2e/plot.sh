#!/usr/bin/env bash
# plot.sh LOCKSTEP: `lockstep plot`: a description and a table become pictures of every format; what is wrong is said in one line.
# test: sanitize
# shellcheck disable=SC2154,SC1091 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"
run() { "$@" >out 2>err </dev/null; code=$?; }

printf 'step,loss,images/s\n1,2.3,1000\n2,1.9,1010\n3,nan,1020\n4,1.1,990\n' >t.csv
run "$lockstep" plot t.csv
equal 'a table to stdout: exit code' "$code" 0
if python3 -c 'import xml.dom.minidom as m; d = m.parse("out"); t = "".join(x.firstChild.data for x in d.getElementsByTagName("text")); assert "loss" in t and "images/s" in t, t' 2>err
then ok 'a table: well formed, with its names'; else bad "a table: $(cat err)"; fi

cat >p.json <<'END'
{"title": "<script>alert(1)</script> & more", "panels": [
 {"x": {"label": "workers", "scale": "log2"}, "series": [{"label": "a\u202e</text>", "x": [1, 2, 4], "y": [1, 1.9, null], "points": true}]},
 {"kind": "heat", "cells": [[5, 1], [0, 7]], "names": ["cat", "dog"], "by_row": true}]}
END
run "$lockstep" plot p.json -o p.svg
equal 'JSON to SVG: exit code' "$code" 0
if python3 -c 'import xml.dom.minidom as m; d = m.parse("p.svg"); assert not d.getElementsByTagName("script")' 2>err
then ok 'JSON to SVG: well formed, no script'; else bad "JSON to SVG: $(cat err)"; fi
run "$lockstep" plot p.json -o q.svg
if cmp -s p.svg q.svg; then ok 'the same description gives the same bytes'; else bad 'two pictures of the same description differ'; fi

run "$lockstep" plot p.json -o p.png
if [ "$code" -eq 0 ]; then
    equal 'PNG' "$(head -c 4 p.png | tail -c 3)" PNG
    run "$lockstep" plot p.json -o p.pdf
    equal 'PDF' "$(head -c 5 p.pdf)" '%PDF-'
else
    one_line_error 'PNG without cairo' 1 cairo
fi

run "$lockstep" plot p.json -o p.gif
one_line_error 'another ending' 2 '.svg, .png or .pdf'
run "$lockstep" plot p.txt
one_line_error 'another kind of file' 2 '.json, .csv or .tsv'
run "$lockstep" plot no.json
one_line_error 'no such file' 3 'no.json'
mkfifo fifo.csv
run "$lockstep" plot fifo.csv
one_line_error 'a file that cannot be read' 3 'fifo.csv is not a regular file'
echo '{"panles": []}' >bad.json
run "$lockstep" plot bad.json
one_line_error 'a misspelt key' 3 "has no 'panles'"
run "$lockstep" plot p.json -o no/such/folder/p.svg
one_line_error 'a folder that is not there' 1 'no/such/folder'
finish
