#!/usr/bin/env bash
# nets.sh LOCKSTEP: short trainings in float32, twice on the card, the same bits; and the loss is ref's; and the same bits again when the
# images are not kept on the card but streamed. NETS: some of them.
source "$(dirname "$0")/common.sh"
list=$(cat <<'NETS'
softmax 1e-5 softmax digits -i 20
mlp 1e-4 mlp digits -i 5
lenet5 1e-4 lenet5 digits -i 8 -b 64 --crop-pad 2
adamw 1e-3 lenet5 digits -i 6 -b 40 --optimizer adamw --clip-norm 0.5 --label-smoothing 0.1
svhn-cnn 1e-4 svhn-cnn fake:3x32x32:10:256 -i 4 -b 32 --flip --cutout 8
resnet-small 1e-3 resnet-small fake:3x32x32:10:128 -i 3 -b 32 --shards 4
resnet18 1e-3 resnet18 fake:3x32x32:10:64 -i 2 -b 32 --shards 4
every 1e-3 ./every.net fake:3x32x32:10:128 -i 4 -b 32
augmented 1e-4 svhn-cnn fake:3x32x32:10:256 -i 4 -b 32 --flip --resized-crop 0.3 --brightness 0.4 --contrast 0.4 --saturation 0.4 --hue 0.1 --erasing 0.5
mixed 1e-4 svhn-cnn fake:3x32x32:10:256 -i 4 -b 32 --mixup 0.4 --cutmix 1 --label-smoothing 0.1
NETS
)
nets=${NETS:-$(cut -d ' ' -f 1 <<<"$list")}

# ref's trainings are the slow ones: they run on the other cores meanwhile
while read -r name tolerance args; do
    [[ " ${nets//$'\n'/ } " == *" $name "* ]] || continue
    # shellcheck disable=SC2086 # words
    on "$name" ref $args </dev/null >/dev/null &
done <<<"$list"

while read -r name tolerance args; do
    [[ " ${nets//$'\n'/ } " == *" $name "* ]] || continue
    # shellcheck disable=SC2086 # words
    first=$(on "$name-1" "$device" $args </dev/null) second=$(on "$name-2" "$device" $args </dev/null)
    equal "$name: twice the same bits" "$second" "${first:-none}"
    # shellcheck disable=SC2086 # words
    equal "$name: streamed" "$(LOCKSTEP_KEEP_MIB=0 on "$name-3" "$device" $args </dev/null)" "${first:-none}"
done <<<"$list"
wait
while read -r name tolerance args; do
    [[ " ${nets//$'\n'/ } " == *" $name "* ]] || continue
    for what in train_loss test_loss; do
        close "$name: $what" "$(field $what "$name-1.$device.out")" "$(field $what "$name.ref.out")" "$tolerance"
    done
done <<<"$list"
finish
