#!/usr/bin/env bash
# examples.sh LOCKSTEP: `make install` into a folder, and the examples as a stranger builds them against that copy: with
# pkg-config (shared and static) and with find_package; what they print is what the program prints. Then uninstalled.
source "$(dirname "$0")/lib.sh"
is_sanitized && skip_all 'built with sanitizers'
build=$(dirname "$lockstep") root=$(realpath "$here/../..")
command -v pkg-config >/dev/null || skip_all 'pkg-config is not installed'
[ "$build" = "$root/build" ] || skip_all 'make install installs build/, and this is another one'
prefix=$work/usr
if [ -e "$build/install_manifest.txt" ]; then cp "$build/install_manifest.txt" manifest.before; fi # of a real one
make -s -C "$root" install SETUP=0 PREFIX=/usr DESTDIR="$work" >install.log 2>&1 || bad "make install: $(tail -n 3 install.log)"
for file in bin/lockstep lib/liblockstep.a lib/liblockstep.so lib/liblockstep.so.0 lib/pkgconfig/lockstep.pc lib/pkgconfig/lockstep-static.pc \
    lib/cmake/lockstep/lockstepConfig.cmake lib/cmake/lockstep/lockstepConfigVersion.cmake include/lockstep/trainer.h; do
    if [ -e "$prefix/$file" ]; then ok "installed $file"; else bad "$file is not installed"; fi
done
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
examples=("$root"/examples/0*.c)
equal 'examples' "${#examples[@]}" 5
for example in "${examples[@]}"; do
    [ "$(wc -l <"$example")" -le 80 ] || bad "$example has more than 80 lines"
done

# compile KIND: every example into KIND/
compile() {
    local flags name
    mkdir "$1"
    read -ra flags < <(pkg-config --cflags --libs "$2")
    for example in "${examples[@]}"; do
        name=$(basename "$example" .c)
        ${CC:-cc} -std=c11 -Wall -Wextra -Werror "$example" "${flags[@]}" -o "$1/$name" 2>err || bad "$1: $name: $(head -n 5 err)"
    done
}
compile shared lockstep
compile static lockstep-static
has 'the shared ones need the library' <(ldd shared/02_own_loop) liblockstep.so.0
equal 'the static ones do not' "$(ldd static/02_own_loop | grep -c liblockstep)" 0

cat >CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.20)
project(stranger C)
find_package(lockstep 0.1 REQUIRED)
add_executable(by_cmake "$root/examples/02_own_loop.c")
target_link_libraries(by_cmake lockstep::lockstep)
add_executable(by_cmake_static "$root/examples/02_own_loop.c")
target_link_libraries(by_cmake_static lockstep::static)
END
if cmake -S . -B found -DCMAKE_PREFIX_PATH="$prefix" >cmake.log 2>&1 && cmake --build found >>cmake.log 2>&1; then
    ok 'find_package(lockstep) finds both'
else
    bad "find_package: $(tail -n 5 cmake.log)"
fi

# The same options by the program: the hashes to compare with.
"$prefix/bin/lockstep" train lenet5 digits -i 40 --run program --json >program.json 2>program.err || note "$(cat program.err)"
hash=$(field weights_hash program.json)
run() { # PROGRAM ARGS...: its stdout in out
    "$@" >out 2>err || bad "$*: exit $?: $(tail -n 1 err)"
}
for kind in shared static; do
    run $kind/01_train_and_evaluate run1.$kind
    equal "$kind 01: trained and evaluated the program's weights" "$(grep -c "weights $hash" out)" 2
    run $kind/02_own_loop run2.$kind
    has "$kind 02: the program's weights" out "weights $hash"
    equal "$kind 02: four evaluations" "$(grep -c 'test accuracy' out)" 4
    run $kind/04_own_model run4.$kind
    has "$kind 04: its own network" out 'tiny: test accuracy'
    run $kind/03_own_data run3.$kind
    accuracy=$(sed -n 's/^test accuracy \([0-9]*\).*/\1/p' out)
    if [ "${accuracy:-0}" -ge 90 ]; then ok "$kind 03: it learns"; else bad "$kind 03: $(cat out)"; fi
done
run found/by_cmake run5
has 'find_package, shared: the weights' out "weights $hash"
run found/by_cmake_static run6
has 'find_package, static: the weights' out "weights $hash"

# A device that is a plug-in: its functions come out of the shared library, also where that was loaded for one caller alone.
cat >plug.c <<'END'
#include <lockstep/train.h>
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    struct ls_train_options o;
    struct ls_result r;
#ifdef BY_HAND
    void *library = dlopen(BY_HAND, RTLD_NOW | RTLD_LOCAL);
    if (!library) return puts(dlerror()), 1;
    void (*defaults)(struct ls_train_options *) = dlsym(library, "ls_train_options_default");
    enum ls_status (*train)(const struct ls_train_options *, struct ls_result *) = dlsym(library, "ls_train");
    const char *(*message)(void) = dlsym(library, "ls_error_message");
#else
    void (*defaults)(struct ls_train_options *) = ls_train_options_default;
    enum ls_status (*train)(const struct ls_train_options *, struct ls_result *) = ls_train;
    const char *(*message)(void) = ls_error_message;
#endif
    defaults(&o);
    o.model = "softmax", o.data = "digits", o.iterations = 5, o.quiet = true, o.device = argv[1], o.run_dir = argv[2];
    return train(&o, &r) == LS_OK ? !printf("%s\n", r.weights_hash) : (puts(message()), argc);
}
END
if [ -e "$build/plugins/lockstep-far.so" ]; then
    export LOCKSTEP_PLUGINS=$build/plugins
    read -ra flags < <(pkg-config --cflags --libs lockstep)
    ${CC:-cc} plug.c "${flags[@]}" -ldl -o plug 2>err || bad "plug.c: $(head -n 5 err)"
    ${CC:-cc} "-DBY_HAND=\"$prefix/lib/liblockstep.so.0\"" plug.c "${flags[0]}" -ldl -o plug_by_hand 2>err || bad "plug.c by hand: $(head -n 5 err)"
    expected=$(./plug ref p.ref)
    equal 'a plug-in and the shared library' "$(./plug far p.far)" "$expected"
    equal 'a plug-in and a library loaded by hand' "$(./plug_by_hand far p.hand)" "$expected"
    unset LOCKSTEP_PLUGINS
fi

# One spot, lower right, for the network that was trained on spots.
{ printf 'P5 16 16 255\n'; head -c 160 /dev/zero; for _ in 1 2 3 4; do head -c 10 /dev/zero; printf '\310\310\310\310\0\0'; done; head -c 32 /dev/zero; } >spot.pgm
run shared/05_classify run3.shared spot.pgm
has '05: the class and its name' out 'spot.pgm: 3 (lower right)'
static/05_classify run3.shared spot.pgm >out2 2>/dev/null
same_file '05: static says the same' out out2
cp spot.pgm half.pgm && truncate -s 100 half.pgm
shared/05_classify run3.shared half.pgm >out 2>err
has '05: a cut picture is refused' err 'half.pgm: not a PGM file'
shared/05_classify nowhere spot.pgm >out 2>err
equal '05: no such run' $? 4
# The run of memory data: the program knows what it is and says what it cannot do.
"$lockstep" eval run3.shared >out 2>err
equal 'eval of images that are gone: exit code' $? 2
has 'eval of images that are gone' err 'spots'

make -s -C "$root" uninstall PREFIX=/elsewhere DESTDIR="$work" >uninstall.log 2>&1 && bad "make uninstall of another prefix is accepted"
if [ -e "$prefix/bin/lockstep" ]; then ok "and removes nothing"; else bad "make uninstall of another prefix removed this one"; fi
make -s -C "$root" uninstall PREFIX=/usr DESTDIR="$work" >uninstall.log 2>&1 || bad "make uninstall: $(tail -n 3 uninstall.log)"
equal 'nothing is left after make uninstall' "$(find "$prefix" -type f -o -type l)" ''
equal 'nor a folder of ours' "$(find "$prefix" -type d -name '*lockstep*')" ''
rm -f "$build/install_manifest.txt"
if [ -e manifest.before ]; then cp manifest.before "$build/install_manifest.txt"; fi
finish
