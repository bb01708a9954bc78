/* crew_place.c: see crew_place.h. */
#include "cli/crew_place.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/quote.h"
#include "cli/launch.h"
#include "cli/launch_impl.h"
#include "cli/slow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

const char ls__ticket_variable[] = "LOCKSTEP_TICKET", ls__slot_variable[] = "LOCKSTEP_SLOT";

/* --- what the server and its workers know each other by --- */

static enum ls_status make_ticket(char out[LS_TICKET_BYTES])
{
    unsigned char random[(LS_TICKET_BYTES - 1) / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return ls_fail(LS_IO, "no random number for the workers' ticket: %s", strerror(errno));
    for (size_t i = 0; i < sizeof random; i++) snprintf(out + 2 * i, 3, "%02x", random[i]);
    return LS_OK;
}

/* A file that has no name, for the server's own key. */
static enum ls_status keep_key(struct ls_places *p, const struct ls_wire_key *key)
{
    char text[LS_WIRE_KEY_TEXT];
    const size_t n = ls_wire_key_print(key, text);
    p->key_file = memfd_create("key", MFD_CLOEXEC);
    const bool is_kept =
        p->key_file >= 0 && write(p->key_file, text, n) == (ssize_t)n && lseek(p->key_file, 0, SEEK_SET) == 0;
    explicit_bzero(text, sizeof text);
    if (!is_kept) return ls_fail(LS_IO, "keep the key of this job: %s", strerror(errno));
    snprintf(p->key, sizeof p->key, "fd:%d", p->key_file);
    return LS_OK;
}

static enum ls_status make_keys(struct ls_places *p)
{
    struct ls_wire_key server, worker;
    enum ls_status status = ls_wire_keys_make(&server, &worker);
    if (status == LS_OK) status = keep_key(p, &server);
    if (status == LS_OK) {
        p->worker_key_bytes = ls_wire_key_print(&worker, p->worker_key);
        p->worker_key[p->worker_key_bytes++] = '\n';
    }
    ls_wire_key_forget(&server);
    ls_wire_key_forget(&worker);
    return status;
}

/* --- open and close --- */

static enum ls_status open_nodes(struct ls_places *p)
{
    char address[16];
    ls__launch_make_nodes(p->o, &p->nodes);
    if (p->nodes.n == 0) return LS_OK;
    TRY(make_keys(p));
    TRY(ls__nodes_enter(&p->nodes, 0));
    ls__nodes_address(0, address);
    snprintf(p->listen, sizeof p->listen, "%s:0", address);
    return LS_OK;
}

/* Its workers do it quietly; the first of several nodes has said it: this process is one of it. */
static void tell_slow(const struct ls_places *p)
{
    int64_t node;
    double factor;
    if (p->o->slow && ls__slow_parse(p->o->slow, &node, &factor) && factor > 1 && (node > 1 || p->o->nodes == 0))
        ls__log(LS_LOG_INFO, "node %lld is held back to 1/%g of its speed", (long long)node, factor);
}

static enum ls_status build(struct ls_places *p)
{
    const ssize_t n = readlink("/proc/self/exe", p->exe, sizeof p->exe - 1);
    if (n <= 0) return ls_fail(LS_IO, "/proc/self/exe: %s", strerror(errno));
    p->exe[n] = '\0';
    TRY(make_ticket(p->ticket));
    if (p->o->nodes > 0) TRY(open_nodes(p));
    ls__launch_tell(p->o, p->nodes.n > 0);
    tell_slow(p);
    return LS_OK;
}

enum ls_status ls__places_open(struct ls_places *p, const struct ls_options *o)
{
    *p = (struct ls_places){.o = o, .key_file = -1, .listen = "127.0.0.1:0"};
    p->n = o->train.workers > 0 ? (int)o->train.workers : 1;
    enum ls_status status = build(p);
    if (status != LS_OK) ls__places_close(p);
    return status;
}

void ls__places_close(struct ls_places *p)
{
    ls__nodes_close(&p->nodes);
    if (p->key_file > 0) close(p->key_file);
    p->key_file = -1;
    explicit_bzero(p->worker_key, sizeof p->worker_key);
}

/* --- one worker --- */

/* Where there are no nodes every worker counts as one. */
static int node_of(const struct ls_places *p, int slot)
{
    const int64_t nodes = p->o->nodes;
    return nodes > 0 ? (int)(slot / (p->n / nodes)) : slot;
}

void ls__places_slot(const struct ls_places *p, int slot, char out[LS_SLOT_TEXT])
{
    snprintf(out, LS_SLOT_TEXT, "%d:%d/%d:%d:%s", slot, slot, p->n, node_of(p, slot) + 1,
             p->nodes.n > 0 ? "far" : "near");
}

void ls__places_name(const struct ls_places *p, int slot, char *out, size_t size)
{
    out[0] = '\0';
    if (p->o->nodes > 0) snprintf(out, size, " on node%d", node_of(p, slot) + 1);
}

static void add_worker(const struct ls_places *p, struct ls_words *w)
{
    char text[64];
    const struct ls_train_options *t = &p->o->train;
    ls__words_add(w, p->exe);
    ls__words_add(w, "train");
    ls__words_add_option(w, "server", p->address);
    ls__words_add(w, "--quiet");
    if (p->key[0]) ls__words_add_option(w, "key", "fd:0");
    if (t->data_dir) ls__words_add_option(w, "data-dir", t->data_dir);
    if (t->tune) ls__words_add_option(w, "tune", t->tune);
    if (p->o->slow) ls__words_add_option(w, "slow", p->o->slow);
    snprintf(text, sizeof text, "%.17g", t->timeout);
    ls__words_add_option(w, "timeout", text);
    snprintf(text, sizeof text, "%lld", (long long)t->threads);
    if (t->threads > 0) ls__words_add_option(w, "threads", text);
}

/* The words as a line of a shell, which becomes them. */
static enum ls_status join(const struct ls_words *words, struct ls_buf *line)
{
    char *quoted;
    TRY(ls__calloc(&quoted, LS_QUOTED_BYTES, 1));
    ls__buf_addf(line, "exec");
    for (int i = 0; i < words->n; i++)
        ls__buf_addf(line, " %s", ls__quote_word(words->argv[i], quoted, LS_QUOTED_BYTES));
    free(quoted);
    return ls__buf_check(line);
}

/* As mpirun would: this program is the remote shell of its nodes. */
static void add_shell(const struct ls_places *p, int slot, const struct ls_words *worker, struct ls_words *w)
{
    char address[16];
    struct ls_buf line = LS_BUF_INIT;
    ls__nodes_address(node_of(p, slot), address);
    ls__words_add(w, p->exe);
    ls__words_add(w, address);
    if (w->status == LS_OK) w->status = join(worker, &line);
    if (w->status == LS_OK) ls__words_add(w, line.text);
    ls__buf_release(&line);
}

void ls__places_command(const struct ls_places *p, int slot, struct ls_words *w)
{
    struct ls_words worker = {0};
    if (p->nodes.n == 0) {
        add_worker(p, w);
        return;
    }
    add_worker(p, &worker);
    w->status = worker.status;
    add_shell(p, slot, &worker, w);
    ls__words_release(&worker);
}
