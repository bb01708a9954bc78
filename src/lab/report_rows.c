/* report_rows.c: the setting, the hashes and the nodes of a question, as tables (report_impl.h). */
#include "base/buf.h"
#include "lab/report_impl.h"
#include "report/words.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

/* --- the setting --- */

/* Whether runs of the question that were asked for have different values of it. By what train was given: scaled,
 * batches may differ that do not in the lab's file. */
static bool is_varied(const struct ls_lab_view *v, const struct ls_lab_question *q, const char *key)
{
    const char *first = NULL;
    bool has_first = false;
    for (int i = 0; i < q->n_runs; i++) {
        if (!ls__lab_find_job(v->state, q->runs[i], 1)) continue;
        const char *value = ls__lab_given(v, q->runs[i], key);
        if (has_first && ((value == NULL) != (first == NULL) || (value && strcmp(value, first) != 0))) return true;
        first = value;
        has_first = true;
    }
    return false;
}

/* What differs, in the order in which the runs have it. */
static int find_axes(const struct ls_lab_view *v, const struct ls_lab_question *q, const char **axes, int max)
{
    int n = 0;
    for (int i = 0; i < q->n_runs; i++) {
        const struct ls_lab_job *job = ls__lab_find_job(v->state, q->runs[i], 1);
        for (int k = 0; job && k < job->n_settings && n < max; k++) {
            const char *key = job->settings[k].key;
            bool is_known = false;
            for (int j = 0; j < n; j++) is_known |= strcmp(axes[j], key) == 0;
            if (!is_known && is_varied(v, q, key)) axes[n++] = key;
        }
    }
    return n;
}

/* What all runs of the question have. */
static void add_common(const struct ls_lab_view *v, const struct ls_lab_question *q)
{
    struct ls_buf text = LS_BUF_INIT;
    const struct ls_lab_job *job = NULL;
    for (int i = 0; i < q->n_runs && !job; i++) job = ls__lab_find_job(v->state, q->runs[i], 1);
    for (int k = 0; job && k < job->n_settings; k++)
        if (!is_varied(v, q, job->settings[k].key))
            ls__buf_addf(&text, "%s%s %s", text.len ? ", " : "", job->settings[k].key, job->settings[k].value);
    if (text.len) ls__page_text(v->p, "Setting of all runs: %s.", text.text);
    if (text.failed && v->p->status == LS_OK) v->p->status = ls__buf_check(&text);
    ls__buf_release(&text);
}

static void add_scaled(const struct ls_lab_view *v, const struct ls_lab_question *q)
{
    struct ls_buf text = LS_BUF_INIT;
    ls__lab_say_scaled(&text, v->lab, v->state, q);
    for (const char *line = text.len ? text.text : ""; *line;) {
        const size_t len = strcspn(line, "\n");
        if (strcmp(v->state->scale, "1") == 0)
            ls__page_note(v->p, "Not as the lab has it: %.*s.", (int)len, line);
        else
            ls__page_note(v->p, "Scaled to %s, %.*s.", v->state->scale, (int)len, line);
        line += len + (line[len] != '\0');
    }
    if (text.failed && v->p->status == LS_OK) v->p->status = ls__buf_check(&text);
    ls__buf_release(&text);
}

void ls__lab_setting_table(const struct ls_lab_view *v, const struct ls_lab_question *q)
{
    enum { MOST = 12 };
    const char *cells[MOST] = {"run"}, *axes[MOST - 2];
    int n_axes = find_axes(v, q, axes, MOST - 2);
    add_common(v, q);
    for (int a = 0; a < n_axes; a++) cells[a + 1] = axes[a];
    cells[n_axes + 1] = "repeats done";
    ls__page_row(v->p, cells, n_axes + 2);
    for (int i = 0; i < q->n_runs; i++) {
        const struct ls_lab_seen *seen = &v->seen[q->runs[i]];
        cells[0] = v->lab->runs[q->runs[i]].name;
        for (int a = 0; a < n_axes; a++) cells[a + 1] = ls__lab_given(v, q->runs[i], axes[a]);
        cells[n_axes + 1] = ls__page_format(v->p, "%d of %d", seen->n_done, seen->n_asked);
        ls__page_row(v->p, cells, n_axes + 2);
    }
    add_scaled(v, q);
}

/* --- hashes --- */

void ls__lab_hash_table(const struct ls_lab_view *v, const struct ls_lab_question *q)
{
    static const char *const head[] = {"run", "repeats", "hash of the weights"};
    ls__page_row(v->p, head, 3);
    for (int i = 0; i < q->n_runs; i++) {
        const struct ls_lab_seen *seen = &v->seen[q->runs[i]];
        const char *text = "";
        for (int k = 0; k < seen->n_done; k++) {
            const char *hash = ls_history_text(seen->done[k], "weights_hash");
            if (hash && !strstr(text, hash)) text = ls__page_format(v->p, "%s%s%.64s", text, *text ? ", " : "", hash);
        }
        const char *cells[] = {v->lab->runs[q->runs[i]].name, ls__page_format(v->p, "%d", seen->n_done), text};
        ls__page_row(v->p, cells, 3);
    }
}

/* --- nodes --- */

/* A machine's workers, or the server's process, which is none of them. */
struct node {
    const char *host;
    bool is_server;
    int n_ranks;
    double images, seconds, communicate, wait, sent, cpu, memory; /* cpu, memory: NAN: not measured of all its ranks */
};

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* Of resources.csv of a rank; NULL: it has none. */
static void add_resources(struct node *n, const struct ls_curve *c)
{
    const double *cpu = c ? ls_curve_values(c, "cpu") : NULL, *memory = c ? ls_curve_values(c, "mem_real") : NULL;
    double sum = 0, most = 0;
    for (size_t i = 0; cpu && i < c->n; i++) sum += isfinite(cpu[i]) ? cpu[i] : 0;
    for (size_t i = 0; memory && i < c->n; i++) most = fmax(most, memory[i]);
    n->cpu += cpu && c->n ? sum / (double)c->n : NAN;
    n->memory += memory && c->n ? most : NAN;
}

static void add_rank(struct node *node, const json_t *rank)
{
    node->n_ranks++;
    node->images += number(rank, "images");
    node->seconds = fmax(node->seconds, number(rank, "total_seconds"));
    node->communicate = fmax(node->communicate, number(rank, "communicate"));
    node->wait = fmax(node->wait, number(rank, "wait"));
    node->sent += number(rank, "bytes_sent");
}

static int find_nodes(const struct ls_history *h, struct node *nodes, int max)
{
    json_t *ranks = json_object_get((json_t *)ls_history_result(h), "ranks"), *one;
    size_t i;
    int n = 0;
    json_array_foreach(ranks, i, one)
    {
        const char *host = json_string_value(json_object_get(one, "host"));
        const bool is_server = i == 0 && ls__lab_is_served(h);
        int at = 0;
        if (!host) continue;
        while (at < n && (nodes[at].is_server || strcmp(nodes[at].host, host) != 0)) at++;
        if (at == max) continue;
        if (at == n) nodes[n++] = (struct node){.host = host, .is_server = is_server};
        add_rank(&nodes[at], one);
        add_resources(&nodes[at], i < LS_MAX_RANKS ? ls_history_resources(h, (int)i) : NULL);
    }
    return n;
}

/* Machines are numbered in the order in which they come; a server's is that of its workers, too. */
static int number_of(const struct node *nodes, int k)
{
    int number = 1;
    for (int i = 0; i < k && strcmp(nodes[i].host, nodes[k].host) != 0; i++) {
        bool is_new = true;
        for (int j = 0; j < i; j++) is_new &= strcmp(nodes[j].host, nodes[i].host) != 0;
        number += is_new;
    }
    return number;
}

static const char *node_name(const struct ls_lab_view *v, const struct ls_history *h, const struct node *nodes, int k)
{
    const char *own = ls_history_text(h, "machine.host"), *name = nodes[k].host;
    char is_shaped[8] = "";
    ls_history_value(h, "launch.is_shaped", is_shaped, sizeof is_shaped); /* then this machine is none of its nodes */
    if (own && strcmp(own, name) == 0 && strcmp(is_shaped, "true") != 0) name = "this machine";
    if (v->ask->is_public && ls_history_text(h, "launch.hosts"))
        name = ls__page_format(v->p, "machine %d", number_of(nodes, k));
    return nodes[k].is_server ? ls__page_format(v->p, "%s, server", name) : name;
}

void ls__lab_nodes_table(const struct ls_lab_view *v, const struct ls_lab_question *q)
{
    enum { MOST = 64 };
    static const char *const head[] = {"run",
                                       "node",
                                       "workers",
                                       "images",
                                       "from start to end (s)",
                                       "communicate (s)",
                                       "wait (s)",
                                       "sent (MiB)",
                                       "CPU, mean (% of a core)",
                                       "memory, most (MiB)"};
    enum { N = sizeof head / sizeof head[0] };
    ls__page_row(v->p, head, N);
    bool is_any_missing = false;
    for (int i = 0; i < q->n_runs; i++) {
        struct node nodes[MOST];
        const struct ls_history *h = ls__lab_first(v, q->runs[i]);
        const int n = h ? find_nodes(h, nodes, MOST) : 0;
        for (int k = 0; k < n; k++) {
            const struct node *node = &nodes[k];
            const char *cells[N] = {v->lab->runs[q->runs[i]].name,
                                    node_name(v, h, nodes, k),
                                    node->is_server ? "" : ls__page_format(v->p, "%d", node->n_ranks),
                                    node->is_server ? "" : ls__say_count(v->p, node->images),
                                    ls__lab_say_as(v->p, LS_LAB_SECONDS, node->seconds),
                                    ls__lab_say_as(v->p, LS_LAB_SECONDS, node->communicate),
                                    ls__lab_say_as(v->p, LS_LAB_SECONDS, node->wait),
                                    ls__lab_say(v->p, node->sent / 1048576),
                                    ls__lab_say(v->p, node->cpu),
                                    ls__lab_say(v->p, node->memory)};
            is_any_missing |= !isfinite(node->cpu) || !isfinite(node->memory);
            ls__page_row(v->p, cells, N);
        }
    }
    ls__page_note(v->p,
                  "Of the first repeat of each run. Times are the longest of a node's workers, the rest their sum.%s",
                  is_any_missing ? " CPU and memory are empty where they were not measured." : "");
}
