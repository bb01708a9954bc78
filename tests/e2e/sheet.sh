#!/usr/bin/env bash
# sheet.sh LOCKSTEP: `data info -o`: the contact sheet shows the pixels of the files under the names of their classes, and beside them what
# training makes of them; what cannot be is said in one line.
# test: sanitize
# shellcheck disable=SC2154,SC1091 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"
run() { "$@" >out 2>err </dev/null; code=$?; }
look() { # WHAT CODE: python code that sees `tiles` (class, file, pixels: rows of RGB triples), plain and augmented
    if python3 - "$here" 2>py.err <<END
import base64, struct, sys, xml.dom.minidom, zlib
sys.path.insert(0, sys.argv[1])
import lib

def decode(blob):
    """Rows of pixels of a PNG without filters."""
    w, h = struct.unpack(">II", blob[16:24])
    channels = {0: 1, 2: 3}[blob[25]]
    at, data = 8, b""
    while at < len(blob):
        (n,) = struct.unpack(">I", blob[at : at + 4])
        if blob[at + 4 : at + 8] == b"IDAT":
            data += blob[at + 8 : at + 8 + n]
        at += 12 + n
    raw = zlib.decompress(data)
    row = 1 + channels * w
    return [[raw[y * row + 1 + channels * x : y * row + 1 + channels * (x + 1)] for x in range(w)] for y in range(h)]

tiles = []
for image in xml.dom.minidom.parse("s.svg").getElementsByTagName("image"):
    tip = image.parentNode.getElementsByTagName("title")[0].firstChild.data.split(", ")
    tiles.append((tip[0], tip[-1], decode(base64.b64decode(image.getAttribute("href").split(",", 1)[1]))))
$2
END
    then ok "$1"; else bad "$1: $(tail -n 3 py.err)"; fi
}
python3 "$here/lib.py" folder pics 5
run "$lockstep" data info folder:pics --resize 32 -o s.svg
if grep -q 'reads no images' err; then skip_all 'this build reads no images'; fi
equal 'a sheet: exit code' "$code" 0
has 'its file is named' out 's.svg'
look 'all pictures of both classes' 'assert [t[0] for t in tiles] == ["cat"] * 5 + ["dog"] * 5, tiles'
look "their pixels are the files'" '
for name, file, pixels in tiles:
    assert file.split("/")[0] == name, (name, file)
    with open("pics/train/" + file, "rb") as f:
        assert decode(f.read()) == pixels, file'

run "$lockstep" data info folder:pics --resize 32 -o s.svg --flip
look '--flip: the same again, and mirrored ones among them' '
plain, seen = tiles[:10], tiles[10:]
assert len(seen) == 10
kinds = set()
for (a, b) in zip(plain, seen):
    assert a[:2] == b[:2]
    mirrored = [row[::-1] for row in a[2]]
    assert b[2] in (a[2], mirrored), a[1]
    kinds.add(b[2] == mirrored)
assert kinds == {True, False}'
cp s.svg first.svg
run "$lockstep" data info folder:pics --resize 32 -o s.svg --flip
if cmp -s s.svg first.svg; then ok 'the same seed, the same sheet'; else bad 'two sheets of the same seed differ'; fi
run "$lockstep" data info folder:pics --resize 32 -o s.svg --flip --seed 5
if cmp -s s.svg first.svg; then bad 'another seed shows the same'; else ok 'another seed, another sheet'; fi
run "$lockstep" data info folder:pics --resize 32 -o s.svg --mixup 1
look '--mixup: shares and both names' '
import re
seen = [t[0] for t in tiles[10:]]
assert all(re.fullmatch(r"\d+ % (cat|dog)", t) for t in seen), seen'

run "$lockstep" data info fake:2x8x24:300:900 -o s.svg
equal 'two channels, 300 classes: exit code' "$code" 0
look 'one each of 96 classes' 'assert len(tiles) == 96 and len({t[0] for t in tiles}) == 96 and len(tiles[0][2]) == 8'
run "$lockstep" data info fake:3x500x400:3:30 -o s.svg --resized-crop 0.3
look 'large images become small tiles' 'assert len(tiles) == 48 and len(tiles[0][2]) == 224 and len(tiles[0][2][0]) == 179'
run "$lockstep" data info digits -o d.png --json
if [ "$code" -eq 0 ]; then
    equal 'PNG' "$(head -c 4 d.png | tail -c 3)" PNG
    equal 'JSON names it' "$(python3 -c 'import json; print(json.load(open("out"))["samples"])')" d.png
else
    one_line_error 'PNG without cairo' 1 cairo
fi

run "$lockstep" data info digits --flip
one_line_error 'augmentation without a sheet' 2 '-o samples.png'
run "$lockstep" data check digits -o s.png
one_line_error 'a sheet of another action' 2 'data info'
run "$lockstep" data info digits -o s.gif
one_line_error 'another ending' 2 '.svg, .png or .pdf'
run "$lockstep" data info digits -o s.svg --crop-pad 2 --resized-crop 0.5
one_line_error 'two kinds of crops' 2 'give one of them'
run "$lockstep" data info digits -o no/such/s.svg
one_line_error 'a folder that is not there' 1 'no/such'
finish
