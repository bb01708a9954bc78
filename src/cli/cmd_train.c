/* cmd_train.c: `lockstep train`: ls_train, then its result for a person or as JSON. */
#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/status_kept.h"
#include "cli/cmd.h"
#include "cli/crew.h"
#include "cli/signals.h"
#include "comm/comm.h"
#include "run/run.h"
#include "settings/sync_names.h"
#include "train/result.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The command that goes on with a run as this one began: alone or by its launcher, as a server for workers that come
 * from anywhere (`listen`), or as the first of the nodes, each of which is started by hand again. */
static enum ls_status go_on_command(const struct ls_options *o, const char *listen, const struct ls_result *r,
                                    struct ls_buf *b)
{
    char word[LS_QUOTED_BYTES];
    ls__buf_addf(b, "lockstep %s --resume %s", listen ? "server" : "train",
                 ls__quote_path(r->run_dir, word, sizeof word));
    if (listen) ls__buf_addf(b, " --listen %s", ls__quote_word(listen, word, sizeof word));
    if (o->master)
        ls__buf_addf(b, " --nodes %" PRId64 " --rank %" PRId64 " --master %s",
                     o->served_at[0] ? o->served_nodes : r->workers, o->rank,
                     ls__quote_word(o->master, word, sizeof word));
    if (o->key && (listen || o->master)) ls__buf_addf(b, " --key %s", ls__quote_path(o->key, word, sizeof word));
    return ls__buf_check(b);
}

/* Commands to paste. go_on: how, when it was stopped, or NULL. */
static void print_next(const struct ls_train_options *o, const struct ls_result *r, const char *go_on)
{
    char run[LS_QUOTED_BYTES];
    ls__quote_path(r->run_dir, run, sizeof run);
    if (go_on) {
        printf("\nstopped; go on with:\n  %s\n", go_on);
        return;
    }
    const int64_t twice = 2 * (r->epochs > 0 ? r->epochs : 1);
    bool is_kept = strcmp(o->checkpoint_every, "none") != 0;
    printf("\nnext:\n");
    if (is_kept) printf("  lockstep eval %s\n", run);
    printf("  lockstep inspect %s\n", run);
    if (!is_kept) return; /* no weights to go on with */
    printf("  lockstep train --resume %s --epochs %" PRId64 "%s%s%s   # train on\n", run,
           twice > o->epochs ? twice : o->epochs, o->iterations > 0 ? " --iterations 0" : "",
           strcmp(r->stopped_by, "patience") == 0 ? " --patience 0" : "",
           strcmp(r->stopped_by, "target") == 0 ? " --target 0" : "");
}

static void print_accuracy(const char *what, double accuracy, double loss, const char *of)
{
    char text[LS_TEXT_BYTES];
    printf("%s %s", what, ls__percent_text(accuracy, text));
    if (isfinite(loss)) printf("  (loss %.4f)", loss);
    printf("%s\n", of);
}

/* Where validation data chose, the test data was measured with the best weights and with the last ones. */
static void print_judgement(const struct ls_result *r)
{
    char text[LS_TEXT_BYTES];
    if (r->best_epoch > 0)
        printf("  best weights    of epoch %" PRId64 " by validation: accuracy %s  (loss %.4f)\n", r->best_epoch,
               ls__percent_text(r->best_validation_accuracy, text), r->best_validation_loss);
    if (r->best_epoch > 0 && r->best_step != r->steps) {
        print_accuracy("  test accuracy  ", r->best_test_accuracy, r->best_test_loss, ", best weights");
        print_accuracy("                 ", r->test_accuracy, r->test_loss, ", last weights");
    } else {
        print_accuracy("  test accuracy  ", r->test_accuracy, r->test_loss, "");
    }
}

/* What each rank did, or a parameter server (rank 0) and its workers; 80 columns. Seconds; shards that it computed as
 * images. */
static void print_ranks(const struct ls_result *r)
{
    enum { SHOWN = 16 };
    if (r->n_ranks_told < 2) return;
    printf("\n  epoch rank    loss accuracy       lr   images    time compute   comm.     sent\n");
    for (int i = 0; i < r->n_ranks_told && i < SHOWN; i++) {
        const struct ls_rank *k = &r->ranks[i];
        char sent[LS_TEXT_BYTES];
        printf("  %5" PRId64 " %4d %7.4f %7.2f%% %8.3g %8" PRId64 " %7.2f %7.2f %7.2f %8s\n", k->epoch, i,
               r->train_loss, 100 * r->train_accuracy, k->lr, k->images, k->total_seconds, k->seconds.compute,
               k->seconds.communicate, ls__bytes_text((double)k->bytes_sent, sent));
    }
    const int64_t n = r->elastic.servers > 0 ? r->elastic.n_workers + 1 : r->workers; /* the server is one, too */
    if (n > SHOWN) printf("  ... and %" PRId64 " more in ranks.csv\n", n - SHOWN);
    printf("\n");
}

/* What each of several servers had, 80 columns. */
static void print_servers(const struct ls_elastic_result *e)
{
    enum { SHOWN = 16 };
    char sent[LS_TEXT_BYTES], received[LS_TEXT_BYTES];
    if (e->servers < 2) return;
    printf("  server host             parameters       sent   received\n");
    for (int i = 0; i < e->servers && i < SHOWN; i++)
        printf("  %6d %-16.16s %10" PRId64 " %10s %10s\n", i, e->each[i].host, e->each[i].parameters,
               ls__bytes_text((double)e->each[i].bytes_sent, sent),
               ls__bytes_text((double)e->each[i].bytes_received, received));
    if (e->servers > SHOWN) printf("  ... and %d more in result.json\n", e->servers - SHOWN);
}

/* What each worker of a parameter server did, 80 columns. */
static void print_elastic(const struct ls_elastic_result *e)
{
    enum { SHOWN = 16 };
    const bool is_batches = e->updates > 0;
    printf("\n  worker host             %8s  pushes rejected  compute     wait  staleness mean, max\n",
           is_batches ? "batches" : "shards");
    for (int i = 0; i < e->n_told && i < SHOWN; i++) {
        const struct ls_elastic_worker *w = &e->workers[i];
        printf("  %6d %-16.16s %8" PRId64 " %7" PRId64 " %8" PRId64 " %8.2f %8.2f  %9.2f %8" PRId64 "\n", i, w->host,
               is_batches ? w->batches : w->shards, w->pushes, w->rejected, w->compute_seconds, w->wait_seconds,
               w->staleness_mean, w->staleness_max);
    }
    if (e->n_workers > SHOWN) printf("  ... and %d more in result.json\n", e->n_workers - SHOWN);
    printf("\n");
}

static void print_summary(const struct ls_train_options *o, const struct ls_result *r, const char *go_on)
{
    char train[LS_TEXT_BYTES], memory[LS_TEXT_BYTES], workers[32] = "";
    if (r->workers > 1) snprintf(workers, sizeof workers, "%" PRId64 " workers, ", r->workers);
    const bool is_served = r->elastic.servers > 0; /* its threads are the server's */
    printf("%s on %s\n", r->model, r->data);
    print_judgement(r);
    printf("  train accuracy  %s", ls__percent_text(r->train_accuracy, train));
    if (isfinite(r->train_loss)) printf("  (loss %.4f)", r->train_loss);
    printf("\n  time            %.1f s of training, %.1f s in all\n", r->train_seconds, r->total_seconds);
    if (r->target_epoch > 0)
        printf("  target          reached in epoch %" PRId64 ": %.2f s of training, %.2f s in all\n", r->target_epoch,
               r->target_train_seconds, r->target_total_seconds);
    printf("  speed           %.0f images/s (%" PRId64 " step%s of %" PRId64 ", %s%" PRId64 " thread%s%s, %s)\n",
           r->images_per_second, r->steps, r->steps == 1 ? "" : "s", r->batch_size, workers, r->threads,
           r->threads == 1 ? "" : "s",
           is_served  ? " here"
           : *workers ? " each"
                      : "",
           r->device);
    printf("  memory          %s at most%s\n", ls__bytes_text((double)r->peak_rss_bytes, memory),
           is_served  ? ", the server"
           : *workers ? ", all workers together"
                      : "");
    print_ranks(r);
    print_servers(&r->elastic);
    if (r->elastic.servers > 0) print_elastic(&r->elastic);
    printf("  weights         %s\n", r->weights_hash);
    printf("  run directory   %s\n", r->run_dir);
    print_next(o, r, go_on);
}

/* mpirun ends a job at the first exit code but 0: that is rank 0's, which tells. A node has an end of its own. */
static enum ls_status end_of_other(enum ls_status status)
{
    if (status == LS_OK || !ls_comm_is_node()) return LS_OK;
    return ls_fail(status, "stopped; rank 0 has written a checkpoint");
}

/* The result of rank 0; `status` is LS_OK or LS_INTERRUPTED and comes back, with the command to go on. */
static enum ls_status tell(const struct ls_options *o, const struct ls_result *r, const char *listen,
                           enum ls_status status)
{
    const struct ls_kept kept = ls__keep(status);
    struct ls_buf command = LS_BUF_INIT;
    enum ls_status told = status == LS_OK ? LS_OK : go_on_command(o, listen, r, &command);
    if (told == LS_OK && o->train.json)
        told = ls__print_json(ls__result_json(r));
    else if (told == LS_OK)
        print_summary(&o->train, r, status == LS_OK ? NULL : command.text);
    if (told == LS_OK && status != LS_OK) told = ls_fail(status, "%s, go on with: %s", kept.message, command.text);
    ls__buf_release(&command);
    return told;
}

/* listen: the address of `lockstep server`, or NULL. */
static enum ls_status train(const struct ls_options *o, const struct ls_elastic *elastic, const char *listen)
{
    struct ls_result result = {.train_accuracy = NAN, .train_loss = NAN, .test_accuracy = NAN, .test_loss = NAN};
    struct ls_train_options options = o->train;
    options.control = &ls__signals_control;
    options.elastic = elastic;
    enum ls_status status = ls_train(&options, &result);
    if (result.is_told_elsewhere) ls__log_set_level(LS_LOG_NOTHING); /* one rank says why */
    if (status != LS_OK && status != LS_INTERRUPTED) return status;
    if (status == LS_INTERRUPTED && result.rank == 0 && !result.run_dir[0]) return status; /* before it began */
    if (result.rank > 0) return end_of_other(status);
    return tell(o, &result, listen, status);
}

/* With a crew of its own. *restarts: left, when another server of it was lost; -1: none was. */
static enum ls_status train_once(const struct ls_options *o, int64_t *restarts)
{
    struct ls_crew *crew = NULL;
    *restarts = -1;
    TRY(ls__crew_create(&crew, o));
    enum ls_status status = train(o, ls__crew_elastic(crew), NULL);
    const struct ls_kept kept = ls__keep(status);
    if (status == LS_REMOTE) *restarts = ls__crew_restarts_after_server(crew);
    ls__crew_destroy(&crew);
    return ls__fail_again(&kept);
}

/* What another server had is lost with it: all of them begin again, from the newest checkpoint. */
static enum ls_status train_with_crew(const struct ls_options *o)
{
    char dir[LS_PATH_BYTES];
    struct ls_options again = *o;
    int64_t restarts;
    const char *resume = o->train.resume;
    const bool is_named = o->train.run_dir || (resume && strcmp(resume, "auto") != 0 && ls__dir_exists(resume));
    if (o->train.servers > 1 && o->max_restarts > 0 && !is_named) {
        TRY(ls__run_make_named(o->train.model, o->train.data, dir));
        again.train.run_dir = dir;
    }
    for (;;) {
        enum ls_status status = train_once(&again, &restarts);
        if (restarts <= 0) return status;
        ls__log(LS_LOG_WARN, "%s; started again", ls_error_message());
        if (!again.train.run_dir) again.train.run_dir = resume;
        again.train.resume = "auto";
        again.max_restarts = restarts - 1;
    }
}

enum ls_status ls__cmd_train(const struct ls_options *o)
{
    return ls__sync_is_served(o->train.sync) ? train_with_crew(o) : train(o, NULL, NULL);
}

enum ls_status ls__train_as_server(const struct ls_options *o, const char *listen)
{
    const struct ls_elastic elastic = {.listen = listen, .key = o->key};
    return train(o, &elastic, listen);
}
