#!/usr/bin/env bash
# folders.sh LOCKSTEP: `folder:` data sets: every byte of the pictures is in the checksum, which is remembered between runs; what
# is not a picture is told and never left out.
# test: sanitize
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all 'python3 is not installed'
python3 "$here/lib.py" folder pics 8
checksums() { "$lockstep" data info "folder:$1" 2>err | sed -n 's/^ *checksum //p' | tr '\n' ' '; }
memories() { find cache/lockstep/checksums -type f 2>/dev/null | sort; }
first=$(checksums pics)
if grep -q 'reads no images' err; then skip_all 'this build reads no images'; fi
if [ "$(wc -w <<<"$first")" -ne 2 ]; then bad "two checksums expected: $first; $(cat err)"; finish; fi
ok "checksums: $first"

# --- contents ---
cp -r pics same
equal 'a copy has the same checksum' "$(checksums same)" "$first"
cp -r pics other
# One byte of one picture; size and mtime as before.
touch -r other/train/cat/3.png stamp
python3 "$here/lib.py" flip other/train/cat/3.png -20
touch -r stamp other/train/cat/3.png
differs 'one changed byte changes it' "$(checksums other)" "$first"
cp -r pics renamed
mv renamed/train/cat/3.png renamed/train/cat/30.png
differs 'another name changes it' "$(checksums renamed)" "$first"
cp -r pics moved
mv moved/test/cat/3.png moved/test/dog/30.png
differs 'another label changes it' "$(checksums moved)" "$first"

# --- the memory: a file that changed within two seconds is not in it, so look until all are ---
# shellcheck disable=SC2046 # several names
remembers_all() { checksums pics >/dev/null && [ "$(stat -c %s $(memories) 2>/dev/null | grep -c "^$((32 + 32 * 16 + 16))\$")" -ge 2 ]; }
rm -rf cache
if eventually remembers_all; then ok 'both splits are remembered'; else bad "not remembered: $(memories | xargs ls -l)"; fi
equal 'remembered: the same checksum' "$(checksums pics)" "$first"
if command -v strace >/dev/null && strace -f true 2>/dev/null && ! is_sanitized; then
    strace -f -o trace -e trace=openat "$lockstep" data info folder:pics >out 2>err
    equal 'remembered: no picture is opened' "$(grep -c 'pics/.*\.png' trace)" 0
    touch pics/train/dog/5.png
    strace -f -o trace -e trace=openat "$lockstep" data info folder:pics >out 2>err
    equal 'one touched: one picture is read' "$(grep -c 'pics/.*\.png' trace)" 1
fi
for memory in $(memories); do python3 "$here/lib.py" flip "$memory" 40; done
equal 'a damaged memory is not believed' "$(checksums pics)" "$first"
for memory in $(memories); do truncate -s 50 "$memory"; done
equal 'a cut memory is not believed' "$(checksums pics)" "$first"
for memory in $(memories); do rm "$memory"; mkfifo "$memory"; done
equal 'a fifo in its place does not hang' "$(checksums pics)" "$first"
rm -rf cache
echo x >cache
equal 'no folder for it: only slower' "$(checksums pics)" "$first"
rm cache
for _ in 1 2 3 4 5 6; do checksums pics >"sums.$_" & done
wait
equal 'six at once agree' "$(cat sums.* | tr ' ' '\n' | grep . | sort -u | wc -l)" 2
equal 'and the memory is whole' "$(checksums pics)" "$first"
env -u HOME -u XDG_CACHE_HOME "$lockstep" data info folder:pics >out 2>err
equal 'without HOME' "$(sed -n 's/^ *checksum //p' out | tr '\n' ' ')" "$first"

# --- decoded pictures are kept, and make no difference but time ---
trained() { train softmax folder:pics --resize 8 -b 4 --epochs 2 --run "$1" && field weights_hash; }
kept=$(trained decoded)
equal 'a training with pictures' "${#kept}" 32
equal 'a file of decoded pictures per split' "$(find cache -name '*-8x8.decoded' | wc -l)" 2
equal 'the next run reads it' "$(trained decoded-again)" "$kept"
for file in cache/lockstep/pictures/*.decoded; do truncate -s -100 "$file"; done
equal 'one that is cut is made anew' "$(trained decoded-cut)" "$kept"
for file in cache/lockstep/pictures/*.decoded; do printf 'xxxx' | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") - 50)) conv=notrunc 2>dd.err; done
equal 'one that is damaged costs time only' "$(trained decoded-damaged)" "$kept"
mv cache cache.kept
echo x >cache
equal 'without a folder for it' "$(trained decoded-without)" "$kept"
rm cache

# --- a picture that changes while its run goes on, where none are kept ---
echo x >cache
cp -r pics live
background softmax folder:live --resize 8 -b 4 --epochs 100000 --checkpoint-every none --run live-run
if eventually has_lines live-run/metrics.jsonl 1; then
    python3 "$here/lib.py" flip live/train/cat/3.png -20
    wait "$pid"
    code=$?
    cp err.bg err
    one_line_error 'a picture that changes during the run' 3 'live/train/cat/3.png has changed'
else
    bad "the run did not start: $(cat err.bg)"
fi
rm cache
mv cache.kept cache

# --- resume with other pictures ---
train softmax folder:pics --resize 8 -b 4 --epochs 1 --run kept
equal 'train: exit code' "$code" 0
cp -r pics/. pics.away && cp other/train/cat/3.png pics/train/cat/3.png
train softmax folder:pics --resize 8 -b 4 --epochs 2 --run kept --resume auto
one_line_error 'resume with another pixel' 4 'data_checksum'
cp pics.away/train/cat/3.png pics/train/cat/3.png

# --- what is no picture ---
refused() { # WHAT PART
    train softmax folder:bad --resize 8 -b 4 -i 1 --run bad-run
    one_line_error "$1" 3 "$2"
    rm -rf bad bad-run
    cp -r pics bad
}
cp -r pics bad
ln -s nowhere bad/train/cat/link.jpg && refused 'a dangling link' 'bad/train/cat/link.jpg: a link that leads nowhere'
ln -s loop.jpg bad/train/cat/loop.jpg && refused 'a link to itself' 'bad/train/cat/loop.jpg'
mkfifo bad/train/cat/pipe.png && refused 'a fifo' 'bad/train/cat/pipe.png'
mkdir bad/train/cat/folder.png && refused 'a folder' 'bad/train/cat/folder.png'
ln -s nowhere bad/train/elk && refused 'a class that is a dangling link' 'bad/train/elk: a link that leads nowhere'
if [ "$(id -u)" -ne 0 ]; then chmod 0 bad/train/cat/2.png && refused 'a picture without permission' 'bad/train/cat/2.png'; fi
printf '\377\330\377' >bad/train/cat/2.png && refused 'a cut picture' 'bad/train/cat/2.png'
truncate -s 300M bad/train/cat/2.png && refused 'a huge picture' 'bad/train/cat/2.png'
ln -s 2.png bad/train/cat/good.png
echo x >bad/train/cat/notes.txt
echo x >bad/train/README
train softmax folder:bad --resize 8 -b 4 -i 1 --run good-run
equal 'a good link and other files are no trouble' "$code" 0

# --- more than 256 classes ---
for i in $(seq 300); do
    mkdir -p "many/train/$i" "many/val/$i"
    cp pics/train/cat/1.png "many/train/$i/"
    cp pics/train/cat/2.png "many/val/$i/"
done
train softmax folder:many --resize 8 -b 50 --epochs 1 --run many-run
equal '300 classes' "$code" 0
has '300 classes: told' many-run/manifest.json '"classes": 300'
finish
