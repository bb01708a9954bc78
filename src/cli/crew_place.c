/* crew_place.c: see crew_place.h. */
#include "cli/crew_place.h"

#include "backend/backend.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/quote.h"
#include "cli/cmd.h"
#include "cli/launch.h"
#include "cli/launch_impl.h"
#include "cli/meet.h"
#include "cli/slow.h"
#include "wire/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

extern char **environ;

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
    snprintf(p->key_text, sizeof p->key_text, "fd:%d", p->key_file);
    p->key = p->key_text;
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
        p->server_key_bytes = ls_wire_key_print(&server, p->server_key);
        p->server_key[p->server_key_bytes++] = '\n';
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
    TRY(ls__nodes_enter(&p->nodes, 0));
    ls__nodes_address(0, address);
    snprintf(p->listen, sizeof p->listen, "%s:0", address);
    return LS_OK;
}

/* Where the hosts find us: the address from which this machine reaches them, or what --listen says. */
static enum ls_status find_addresses(struct ls_places *p)
{
    for (int i = 0; i < p->n_hosts; i++) {
        char host[300], why[200];
        snprintf(host, sizeof host, "%s:9", ls__launch_is_here(p->hosts[i]) ? "127.0.0.1" : p->hosts[i]);
        if (ls_wire_own_host(host, p->toward[i], LS_HOST_TEXT) == LS_OK) continue;
        const char *cause = strstr(ls_error_message(), "': ");
        snprintf(why, sizeof why, "%s", cause ? cause + 3 : ls_error_message());
        return ls_fail(LS_USAGE,
                       "host %s of --hosts: %s; if only the remote shell knows it, say where the server is reached: "
                       "--listen ADDRESS",
                       p->hosts[i], why);
    }
    return LS_OK;
}

/* "*", "0.0.0.0", "[::]", with a port or without */
static bool is_anywhere(const char *address)
{
    static const char *const all[] = {"*", "0.0.0.0", "[::]"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const size_t n = strlen(all[i]);
        if (strncmp(address, all[i], n) == 0 && (address[n] == ':' || address[n] == '\0')) return true;
    }
    return false;
}

static enum ls_status choose_address(struct ls_places *p)
{
    const char *told = ls__option_is_given(p->o, "listen") ? p->o->listen : NULL;
    bool is_one = true;
    if (!told || is_anywhere(told)) TRY(find_addresses(p));
    for (int i = 1; i < p->n_hosts; i++) is_one = is_one && strcmp(p->toward[i], p->toward[0]) == 0;
    const char *where = told ? told : is_one ? p->toward[0] : "*";
    snprintf(p->listen, sizeof p->listen, "%s%s", where, ls__address_has_port(where) ? "" : ":0");
    return LS_OK;
}

static enum ls_status open_hosts(struct ls_places *p)
{
    TRY(ls__launch_split_hosts(p->o->hosts, &p->host_text, &p->hosts, &p->n_hosts));
    TRY(ls__calloc(&p->toward, (size_t)p->n_hosts, sizeof *p->toward));
    p->each = (int)p->o->procs_per_node;
    p->n = p->n_hosts * p->each;
    TRY(choose_address(p));
    return make_keys(p);
}

/* A process launches to one card: of such a machine the workers stay apart. */
static bool has_cards(const struct ls_train_options *t)
{
    const struct ls_backend *backend;
    return t->gpus > 0 || (t->device && strcmp(t->device, "auto") != 0 &&
                           ls_backend_get(t->device, &backend) == LS_OK && backend->memory);
}

/* The workers of a machine, as one process. */
static void join_workers(struct ls_places *p)
{
    const struct ls_train_options *t = &p->o->train;
    const int width = (int)p->o->procs_per_node;
    const bool has_network = p->n_hosts > 0 || p->nodes.n > 0;
    if (!has_network || width == 1 || strcmp(t->sync, "ps") != 0 || has_cards(t)) return;
    p->width = width;
    p->n /= width;
    if (t->threads > 0)
        ls__log(LS_LOG_INFO, "--sync ps: the %d workers of a machine are one process of %lld threads", width,
                width * (long long)t->threads);
    else
        ls__log(LS_LOG_INFO, "--sync ps: the %d workers of a machine are one process with the threads of all", width);
}

/* One worker beside the server; whoever started it and the others knows the key. */
static void open_meeting(struct ls_places *p)
{
    int at;
    const int n_others = (int)p->o->served_nodes - 1; /* each starts a server of its own, while more are wanted */
    p->n = p->each = 1;
    p->first_keeper = p->n_keepers > n_others ? n_others : p->n_keepers;
    p->n_keepers -= p->first_keeper;
    (void)ls__meet_share(p->o, &at, &p->each);
    snprintf(p->listen, sizeof p->listen, "%s", p->o->served_at);
    p->key = p->o->key;
    p->ticket[0] = '\0';
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
    if (p->o->hosts) TRY(open_hosts(p));
    if (p->o->served_at[0]) open_meeting(p);
    join_workers(p);
    ls__launch_tell(p->o, p->nodes.n > 0);
    tell_slow(p);
    return LS_OK;
}

enum ls_status ls__places_open(struct ls_places *p, const struct ls_options *o)
{
    *p = (struct ls_places){.o = o, .key_file = -1, .width = 1, .listen = "127.0.0.1:0"};
    p->n = p->each = o->train.workers > 0 ? (int)o->train.workers : 1;
    p->n_keepers = (int)o->train.servers - 1;
    enum ls_status status = build(p);
    if (status != LS_OK) ls__places_close(p);
    return status;
}

void ls__places_close(struct ls_places *p)
{
    ls__nodes_close(&p->nodes);
    if (p->key_file > 0) close(p->key_file);
    p->key_file = -1;
    free(p->toward);
    free(p->hosts);
    free(p->host_text);
    p->toward = NULL;
    p->hosts = NULL;
    p->host_text = NULL;
    explicit_bzero(p->worker_key, sizeof p->worker_key);
    explicit_bzero(p->server_key, sizeof p->server_key);
}

/* --- one worker --- */

/* Where there are no machines but this one every worker counts as one. Of several servers this one is on the first
 * node, or on a machine besides the hosts; the others follow. */
static int machine_of(const struct ls_places *p, int slot)
{
    if (slot >= p->n && p->n_hosts > 0) return (slot - p->n) % p->n_hosts;
    if (slot >= p->n) return p->o->nodes > 0 ? (int)((slot - p->n + 1) % p->o->nodes) : 0;
    if (p->n_hosts > 0) return slot * p->width / p->each;
    return p->o->nodes > 0 ? (int)(slot / (p->n / p->o->nodes)) : slot;
}

/* Beside the server is its own node, and a host that is this machine. */
static const char *distance_of(const struct ls_places *p, int slot)
{
    const int machine = machine_of(p, slot);
    if (p->n_hosts > 0) return slot < p->n && ls__launch_is_here(p->hosts[machine]) ? "beside" : "far";
    if (p->nodes.n > 0) return machine == 0 ? "beside" : "node";
    return p->o->served_at[0] ? "beside" : "near";
}

void ls__places_slot(const struct ls_places *p, int slot, char out[LS_SLOT_TEXT])
{
    const char *distance = distance_of(p, slot);
    const bool is_keeper = slot >= p->n; /* its cores are all of the machine's */
    const int at = is_keeper ? p->first_keeper + slot - p->n : slot * p->width % p->each;
    snprintf(out, LS_SLOT_TEXT, "%d:%d+%d/%d:%d:%s", slot, at, is_keeper ? 1 : p->width,
             is_keeper ? p->first_keeper + p->n_keepers : p->each, machine_of(p, slot) + 1, distance);
}

void ls__places_name(const struct ls_places *p, int slot, char *out, size_t size)
{
    out[0] = '\0';
    if (p->o->nodes > 0) snprintf(out, size, " on node%d", machine_of(p, slot) + 1);
    if (p->n_hosts > 0) snprintf(out, size, " on %s", p->hosts[machine_of(p, slot)]);
}

void ls__places_advise(const struct ls_places *p, int slot, int exit_code, char *out, size_t size)
{
    const char *agent = getenv("LOCKSTEP_RSH"), *host = p->n_hosts > 0 ? p->hosts[machine_of(p, slot)] : NULL;
    out[0] = '\0';
    if (!host || ls__launch_is_here(host)) return;
    if (exit_code == 126 || exit_code == 127)
        snprintf(out, size, " (is %s there?)", p->exe);
    else if (exit_code == 255 || exit_code == 1)
        snprintf(out, size, " (does `%s %s true` work?)", agent && *agent ? agent : "ssh", host);
}

/* Where the server is, for this process. */
static void add_address(const struct ls_places *p, int slot, const char *option, struct ls_words *w)
{
    char address[LS_HOST_TEXT + 16];
    const char *port = strrchr(p->address, ':');
    const bool is_own = p->n_hosts > 0 && is_anywhere(p->listen) && port;
    if (is_own) snprintf(address, sizeof address, "%s%s", p->toward[machine_of(p, slot)], port);
    ls__words_add_option(w, option, is_own ? address : p->address);
}

static void add_process(const struct ls_places *p, int slot, struct ls_words *w)
{
    char text[64];
    const struct ls_train_options *t = &p->o->train;
    const bool is_keeper = slot >= p->n;
    ls__words_add(w, p->exe);
    ls__words_add(w, is_keeper ? "server" : "train");
    add_address(p, slot, is_keeper ? "chief" : "server", w);
    ls__words_add(w, "--quiet");
    if (p->key) ls__words_add_option(w, "key", p->worker_key_bytes > 0 ? "fd:0" : p->key);
    if (t->data_dir) ls__words_add_option(w, "data-dir", t->data_dir);
    if (t->tune) ls__words_add_option(w, "tune", t->tune);
    if (p->o->slow && !is_keeper) ls__words_add_option(w, "slow", p->o->slow);
    snprintf(text, sizeof text, "%.17g", t->timeout);
    ls__words_add_option(w, "timeout", text);
    snprintf(text, sizeof text, "%lld", (long long)t->threads);
    if (t->threads > 0) ls__words_add_option(w, "threads", text);
}

static void add_quoted(struct ls_buf *line, char *quoted, const char *word)
{
    ls__buf_addf(line, " %s", ls__quote_word(word, quoted, LS_QUOTED_BYTES));
}

/* What this process was told through its environment, but for what is its own; and which worker it is. */
static void add_environment(const struct ls_places *p, int slot, struct ls_buf *line, char *quoted)
{
    static const char *const own[] = {"LOCKSTEP_TICKET=", "LOCKSTEP_SLOT=", "LOCKSTEP_LAUNCH", "LOCKSTEP_NODE",
                                      "LOCKSTEP_RSH="};
    char text[LS_SLOT_TEXT];
    ls__places_slot(p, slot, text);
    ls__buf_addf(line, " env %s=%s", ls__slot_variable, text);
    for (char **e = environ; *e; e++) {
        bool is_own = strncmp(*e, "LOCKSTEP_", 9) != 0;
        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
            is_own = is_own || strncmp(*e, own[i], strlen(own[i])) == 0;
        if (!is_own) add_quoted(line, quoted, *e);
    }
}

/* A line for a shell, which becomes the worker. On another machine it has our folder and environment. */
static enum ls_status write_line(const struct ls_places *p, int slot, const struct ls_words *worker,
                                 struct ls_buf *line)
{
    char *quoted, folder[LS_PATH_BYTES];
    TRY(ls__calloc(&quoted, LS_QUOTED_BYTES, 1));
    if (p->n_hosts > 0 && getcwd(folder, sizeof folder)) {
        ls__buf_addf(line, "cd");
        add_quoted(line, quoted, folder);
        ls__buf_addf(line, "; ");
    }
    ls__buf_addf(line, "exec");
    if (p->n_hosts > 0) add_environment(p, slot, line, quoted);
    for (int i = 0; i < worker->n; i++) add_quoted(line, quoted, worker->argv[i]);
    free(quoted);
    return ls__buf_check(line);
}

/* This program is the remote shell of its nodes, as for mpirun. */
static void add_shell(const struct ls_places *p, int slot, struct ls_words *w)
{
    char address[16];
    if (p->n_hosts > 0) {
        ls__launch_shell(w, p->hosts[machine_of(p, slot)]);
        return;
    }
    ls__nodes_address(machine_of(p, slot), address);
    ls__words_add(w, p->exe);
    ls__words_add(w, address);
}

void ls__places_command(const struct ls_places *p, int slot, struct ls_words *w)
{
    struct ls_words worker = {0};
    struct ls_buf line = LS_BUF_INIT;
    const bool is_child = p->n_hosts > 0 ? ls__launch_is_here(p->hosts[machine_of(p, slot)]) : p->nodes.n == 0;
    if (is_child) {
        add_process(p, slot, w);
        return;
    }
    add_process(p, slot, &worker);
    w->status = worker.status;
    if (w->status == LS_OK) w->status = write_line(p, slot, &worker, &line);
    add_shell(p, slot, w);
    if (w->status == LS_OK) ls__words_add(w, line.text);
    ls__buf_release(&line);
    ls__words_release(&worker);
}
