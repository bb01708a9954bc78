#!/usr/bin/env bash
# tune.sh LOCKSTEP: `lockstep tune`, tables that change a plan, and what a resumed run says to another table or --isa.
# test: sanitize
# shellcheck disable=SC2154,SC2206 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"

run() { # run COMMAND...: leaves out, err, code
    "$@" >out 2>err </dev/null
    code=$?
}
deep() { # deep KEY.KEY FILE
    python3 -c 'import functools,json,sys; print(functools.reduce(lambda v, k: v[k], sys.argv[1].split("."), json.load(open(sys.argv[2]))))' "$1" "$2"
}

cat >small.net <<'END'
model small
input any
conv c1 8 3 pad=1
relu
maxpool 2
conv c2 16 3 pad=1
relu
flatten
linear fc classes
END
train_small() { train small.net fake:3x12x12:4:96 -b 16 --no-eval "$@"; }

run "$lockstep" plan small.net --input 3x12x12 --classes 4 -b 16
key=$(sed -n 's/^backend \([a-z]*\) .*/\1/p' out)
if [ "$key" != cpu ]; then skip_all "the cpu backend is not in this build"; fi

# Measuring: a table for this machine, which the program reads again.
run "$lockstep" tune small.net -b 16 --seconds 0.01 -o found.tune
equal 'tune: exit code' "$code" 0
has 'tune: tells the step' out 'by the rules'
has 'tune: the header' found.tune 'tune 1'
run "$lockstep" tune small.net -b 16 --seconds 0.01 --json -q
equal 'tune --json: exit code' "$code" 0
has 'tune --json: the table is in it' out '"table": "tune 1'
cp found.tune before.tune
run "$lockstep" tune small.net fake:3x8x8:4:64 -b 16 --seconds 0.01 -o found.tune -q
equal 'tune into a table that is there: exit code' "$code" 0
equal 'tune into a table that is there: one header' "$(grep -c '^tune 1' found.tune)" 1
equal 'tune into a table that is there: two measurements' "$(grep -c 'by the rules' found.tune)" 2
train_small -i 4 --run found --tune found.tune
equal 'the table is read: exit code' "$code" 0
run "$lockstep" tune small.net -o small.net
one_line_error 'tune does not write over another file' 3 'small.net:1'

# A table of our own: the first convolution by a kernel the rules do not choose.
conv='conv2d 4x3x12x12 8x3x3x3 > 4x8x12x12 k3x3 s1x1 p1x1 d1x1 g1'
head -n 3 found.tune >top
run "$lockstep" plan small.net --input 3x12x12 --classes 4 -b 16 --tune none
chosen=$(awk '$2 == "conv2d" && $3 == "c1" { print $4; exit }' out)
case $chosen in dnnl*) other=lanes ;; *) other=dnnl ;; esac
{ cat top; echo "$conv = $other"; } >my.tune
run "$lockstep" plan small.net --input 3x12x12 --classes 4 -b 16 --tune my.tune
if ! grep -q '(tuned)' out; then other=ref; { cat top; echo "$conv = ref"; } >my.tune; fi # lanes need AVX-512
run "$lockstep" plan small.net --input 3x12x12 --classes 4 -b 16 --tune my.tune
has "a table changes the choice ($chosen to $other)" out '(tuned)'
{ cat top; echo "$conv = abacus"; } >unknown.tune
run "$lockstep" plan small.net --input 3x12x12 --classes 4 -b 16 --tune unknown.tune
has 'an unknown kernel: the rules choose, and the plan says so' out "the table's abacus: no such implementation"

train_small -i 4 --run rules --tune none
train_small -i 4 --run mine --tune my.tune
equal 'the manifest names the table' "$(deep options.tune mine/manifest.json) $(deep tune.table mine/manifest.json) $(deep tune.used mine/manifest.json)" \
    'my.tune my.tune 1'
hash=$(field weights_hash mine/result.json)
train_small -i 4 --run again --tune my.tune --threads 1
equal 'the table is all that decides: one thread, the same bits' "$(field weights_hash)" "$hash"

# Going on with another table, and with the same.
train_small -i 8 --run mine --resume auto --tune none
one_line_error 'resume with another table' 4 'give the same --tune, or --accept-other-bits'
has 'resume with another table: the layer is named' err "'c1 conv2d $other"
train_small -i 8 --run mine --resume auto --tune my.tune
equal 'resume with the same table: exit code, steps' "$code $(field steps)" '0 8'
train_small -i 10 --run mine --resume auto --tune none --accept-other-bits
equal 'resume with another table, accepted: exit code, steps' "$code $(field steps)" '0 10'
has 'resume with another table, accepted: a warning' err 'lockstep: warning: the checkpoint was computed with kernel'
{ cat top; echo "$conv = $other"; echo 'relu 1x1 > 1x1 = own'; } >longer.tune
train_small -i 4 --run longer --tune my.tune
train_small -i 8 --run longer --resume auto --tune longer.tune
equal 'a table that chooses the same here is as good' "$code" 0

# A level below what the machine has.
if grep -q avx512 top; then
    train_small -i 4 --run low --isa avx2
    equal '--isa avx2: exit code, manifest' "$code $(deep machine.isa low/manifest.json)" '0 avx2'
    train_small -i 8 --run low --resume auto
    one_line_error 'resume with a higher level' 4 "instruction set 'avx2', this run would use 'avx512'; give --isa avx2"
    train_small -i 8 --run low --resume auto --isa avx2
    equal 'resume with --isa avx2' "$code" 0
    train_small -i 8 --run high
    train_small -i 8 --run high --resume auto --isa avx2
    equal 'a run that is done is compared too' "$code" 4
    run "$lockstep" plan small.net --input 3x12x12 --classes 4 -b 16 --isa avx2 --tune my.tune
    one_line_error 'a table for another level' 2 'my.tune'
    export ONEDNN_MAX_CPU_ISA=AVX512_CORE
    train_small -i 8 --run core
    unset ONEDNN_MAX_CPU_ISA
    equal 'avx512 is one level: the same bits without its extensions' "$(field weights_hash)" \
        "$(field weights_hash high/result.json)"
fi

# Bad tables.
refused() { # refused WHAT TEXT PART
    printf '%b' "$2" >bad.tune
    run "$lockstep" plan small.net --input 3x12x12 --classes 4 -b 16 --tune bad.tune
    one_line_error "$1" 3 "$3"
}
refused 'an empty table' '' 'bad.tune:0'
refused 'no table at all' '\177ELF\001\002' 'bad.tune:1'
refused 'a line that is cut' "$(cat top)\nconv2d 4x3x12" 'bad.tune:4'
refused 'a choice twice' "$(cat top)\nrelu 1 > 1 = own\nrelu 1 > 1 = ref" 'bad.tune:5'
run "$lockstep" plan small.net --tune nowhere.tune
one_line_error 'a table that is not there' 3 'nowhere.tune'
mkfifo pipe.tune
run "$lockstep" plan small.net --tune pipe.tune
one_line_error 'a table that is a pipe' 3 pipe.tune

finish
