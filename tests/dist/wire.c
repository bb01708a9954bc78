/* wire.c: the cable of src/nodes as a program, for hosts that outlive a job and networks that change under it.
 *
 *     wire SHAPE TAP...      tests/dist/netns starts it, on kernels without tc's netem
 *
 * In:  SHAPE, a file of one line "RATE DELAY JITTER LOSS REORDER": bits per second (0: no limit), seconds, seconds, and
 * two shares from 0 to 1; read again at SIGHUP. The devices are made here and go with this program; netns moves the
 * k-th into its namespace and gives it the hardware address 02:00:00:00:00:k. Out: "ready" on stdout.
 */
#include "nodes/cable.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static volatile sig_atomic_t is_changed;

static void on_change(int number)
{
    is_changed = 1;
}

static enum ls_status read_shape(struct ls_cable *w, const char *path)
{
    struct ls_cable_shape s;
    FILE *file = fopen(path, "r");
    if (!file) return ls_fail(LS_IO, "open %s: %s", path, strerror(errno));
    int n = fscanf(file, "%lf %lf %lf %lf %lf", &s.bits_per_second, &s.delay, &s.jitter, &s.loss, &s.reorder);
    fclose(file);
    if (n != 5) return ls_fail(LS_DATA, "%s: expected rate, delay, jitter, loss, reorder", path);
    return ls__cable_shape(w, &s);
}

static enum ls_status run(int argc, char **argv, struct ls_cable **w)
{
    enum { SECOND_NS = 1000000000 };
    int tap;
    if (argc < 4) return ls_fail(LS_USAGE, "usage: wire SHAPE TAP TAP...");
    TRY(ls__cable_create(w));
    for (int i = 2; i < argc; i++) {
        TRY(ls__cable_tap(argv[i], &tap));
        TRY(ls__cable_add(*w, tap));
    }
    TRY(read_shape(*w, argv[1]));
    sigaction(SIGHUP, &(struct sigaction){.sa_handler = on_change}, NULL);
    ls__cable_hurry();
    puts("ready");
    fflush(stdout);
    for (;;) {
        ls__cable_turn(*w, SECOND_NS);
        if (!is_changed) continue;
        is_changed = 0;
        TRY(read_shape(*w, argv[1]));
    }
}

int main(int argc, char **argv)
{
    struct ls_cable *w = NULL;
    enum ls_status status = run(argc, argv, &w);
    fprintf(stderr, "wire: %s\n", ls_error_message());
    ls__cable_destroy(&w);
    return ls_status_exit_code(status);
}
