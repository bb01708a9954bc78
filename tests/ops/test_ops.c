/* test_ops.c: every op on every backend of the build, one line of a .cases file at a time.
 *
 *     test_ops [--perf] [--backend NAME] [--precision NAME] [--tolerance X] FOLDER|FILE...
 *     test_ops [--perf] [--backend NAME] [--precision NAME] [--tolerance X] --case 'LINE'
 *
 * NAME may be a plug-in (lockstep-NAME.so, looked for in $LOCKSTEP_PLUGINS too), whose memory need not be the host's.
 *
 * With --precision the backend computes with tf32 or bf16. For bf16 all numbers are rounded to it first, so that ref
 * computes with the same: what is left to differ is the rounding of results (2^-9) and of sums, hence 1e-2 of the
 * largest element. tf32 rounds what it multiplies to 2^-11: 2e-3.
 *
 * A case is run on ref, which is held against formulas in double and their differences (checks.h), then on every other
 * backend, which is held against ref; the runner watches memory and repeatability (runner.h). A failure prints the
 * command that repeats it. --perf also prints the time of every kernel. The last line counts; the exit code is 0 only
 * if none failed.
 *
 * Adding a case is adding a line to ops/<op>.cases. Adding an op is adding its setup (problem.c) and its formula
 * (oracle.c).
 */
#include "../unit/sanitized.h"
#include "cases.h"
#include "checks.h"
#include "problem.h"
#include "runner.h"

#include "base/file.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct session {
    const char *program;
    const char *only;                /* backend, or NULL for all */
    const struct ls_backend *plugin; /* --backend: one that is not in the list, or NULL */
    double tolerance;                /* against ref; 0: the usual one */
    enum ls_precision precision;
    bool is_perf;
    int n_passed, n_failed, n_refused;
    int n_asked; /* nodes computed by an implementation that is not the first choice */
};

static bool is_wanted(const struct session *s, const struct ls_backend *backend)
{
    return !s->only || strcmp(s->only, backend->name) == 0;
}

static enum ls_status run_other(struct session *s, const struct problem *p, const struct ls_backend *backend,
                                bool is_native, const char *asked, const struct runner *ref)
{
    struct runner r;
    enum ls_status status = runner_open(&r, backend, p);
    r.truth = ref;
    r.is_native = is_native;
    r.asked = asked;
    r.is_perf = s->is_perf;
    r.tolerance = s->tolerance;
    if (status == LS_OK && s->precision != LS_PRECISION_F32)
        status = backend->set_precision ? backend->set_precision(r.device, s->precision)
                                        : ls_fail(LS_ERROR, "%s computes in f32 only", backend->name);
    if (status == LS_OK) status = runner_run(&r);
    if (status == LS_OK) status = check_against_ref(p, &r, ref);
    s->n_asked += r.n_asked;
    runner_close(&r);
    return asked && status != LS_OK ? ls_fail_in(status, "by %s", asked) : status;
}

static bool is_listed_before(const struct ls_impl *const *impls, int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(impls[k]->name, impls[i]->name) == 0) return true;
    return false;
}

/* The backend as it chooses itself, in plain layouts and its own, and with every implementation a table may name. */
static enum ls_status run_backend(struct session *s, const struct problem *p, const struct ls_backend *backend,
                                  const struct runner *ref)
{
    for (int native = 0; native < 2; native++) TRY(run_other(s, p, backend, native, NULL, ref));
    for (int i = 0; backend->impls[i]; i++)
        if (!is_listed_before(backend->impls, i)) TRY(run_other(s, p, backend, false, backend->impls[i]->name, ref));
    return LS_OK;
}

static enum ls_status run_all(struct session *s, const struct problem *p)
{
    struct runner ref;
    enum ls_status status = runner_open(&ref, &ls_backend_ref, p);
    ref.is_perf = s->is_perf && is_wanted(s, &ls_backend_ref);
    if (status == LS_OK) status = runner_run(&ref);
    const bool is_checked =
        s->precision == LS_PRECISION_F32 &&
        !IS_SANITIZED; /* rounding makes ties; the formulas take most of the time, and are no kernels */
    if (status == LS_OK && is_checked) status = check_ref(p, &ref);
    for (int i = 0; ls_backends[i] && status == LS_OK; i++)
        if (ls_backends[i] != &ls_backend_ref && is_wanted(s, ls_backends[i]))
            status = run_backend(s, p, ls_backends[i], &ref);
    if (s->plugin && status == LS_OK) status = run_backend(s, p, s->plugin, &ref);
    runner_close(&ref);
    return status;
}

static enum ls_status run_update(const struct session *s, struct test_case *c)
{
    for (int i = 0; ls_backends[i]; i++)
        if (is_wanted(s, ls_backends[i])) TRY(check_update(c, ls_backends[i], s->is_perf));
    return s->plugin ? check_update(c, s->plugin, s->is_perf) : LS_OK;
}

typedef enum ls_status check(struct test_case *c, const struct ls_backend *backend);

static enum ls_status run_check(const struct session *s, struct test_case *c, check *fn)
{
    for (int i = 0; ls_backends[i]; i++)
        if (is_wanted(s, ls_backends[i])) TRY(fn(c, ls_backends[i]));
    return s->plugin ? fn(c, s->plugin) : LS_OK;
}

static enum ls_status run_line(struct session *s, const char *line)
{
    struct test_case c;
    struct problem p;
    TRY(case_parse(&c, line));
    if (s->is_perf) printf("%s\n", line);
    if (is_update_case(&c)) return run_update(s, &c);
    if (is_load_case(&c)) return run_check(s, &c, check_load);
    if (is_fault_case(&c)) return run_check(s, &c, check_fault);
    enum ls_status status = problem_build(&p, &c);
    if (status == LS_OK && s->precision == LS_PRECISION_BF16) problem_round(&p);
    if (status == LS_OK) status = run_all(s, &p);
    problem_release(&p);
    return status;
}

/* A plug-in that says by name what it has not: those are counted apart, and everything else must be right. */
static bool is_refused_by_name(const struct session *s)
{
    return s->plugin && strstr(ls_error_message(), " has no ") && strstr(ls_error_message(), " yet");
}

static void count_line(struct session *s, const char *line)
{
    if (run_line(s, line) == LS_OK) {
        s->n_passed++;
        return;
    }
    if (is_refused_by_name(s)) {
        s->n_refused++;
        printf("refused: %s\n", line);
        return;
    }
    s->n_failed++;
    printf("FAIL %s\n     %s\n     again: %s --case '%s'\n", line, ls_error_message(), s->program, line);
}

static void count_file(struct session *s, const char *path)
{
    char *text = NULL, *rest;
    size_t len;
    if (ls__file_read(path, 1 << 20, &text, &len) != LS_OK) {
        s->n_failed++;
        printf("FAIL %s\n", ls_error_message());
        return;
    }
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (line[0] != '#' && line[strspn(line, " \t")] != '\0') count_line(s, line);
    free(text);
}

static void count_folder(struct session *s, const char *folder)
{
    char pattern[LS_PATH_BYTES];
    glob_t found = {0};
    snprintf(pattern, sizeof pattern, "%s/*.cases", folder);
    if (glob(pattern, 0, NULL, &found) != 0) {
        s->n_failed++;
        printf("FAIL no *.cases in %s\n", folder);
    }
    for (size_t i = 0; i < found.gl_pathc; i++) count_file(s, found.gl_pathv[i]);
    globfree(&found);
}

/* NaN must not vanish on its way to the loss: not in relu, not in maxpool. The reference backend promises this. */
static void count_nan(struct session *s, const char *line)
{
    struct test_case c;
    struct problem p;
    struct runner ref = {0};
    enum ls_status status = case_parse(&c, line);
    if (status == LS_OK) status = problem_build(&p, &c);
    if (status == LS_OK) {
        p.data[p.g->nodes[0].in[0]][0] = NAN;
        status = runner_open(&ref, &ls_backend_ref, &p);
    }
    if (status == LS_OK) status = runner_run(&ref);
    if (status == LS_OK && !isnan(((const float *)ref.values[p.g->nodes[0].out[0]].data)[0]))
        status = ls_fail(LS_ERROR, "a NaN in src is no NaN in dst");
    if (status == LS_OK) s->n_passed++;
    if (status != LS_OK) {
        s->n_failed++;
        printf("FAIL NaN through %s: %s\n", line, ls_error_message());
    }
    runner_close(&ref);
    problem_release(&p);
}

/* False, with the reason printed, where there is no such backend or no device for it. */
static bool choose(struct session *s, const char *name)
{
    const struct ls_backend *backend = NULL;
    struct ls_device *device = NULL;
    s->only = name;
    enum ls_status status = ls_backend_get(name, &backend);
    if (status == LS_OK) status = backend->device_open(&device);
    if (status == LS_OK) backend->device_close(&device);
    if (status == LS_OK && !ls_backend_find(name)) s->plugin = backend;
    if (status != LS_OK) fprintf(stderr, "test_ops: --backend %s: %s\n", name, ls_error_message());
    return status == LS_OK;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: test_ops [--perf] [--backend NAME] [--precision NAME] [--tolerance X] FOLDER|FILE... | --case "
            "'LINE'\n");
    return 2;
}

int main(int argc, char **argv)
{
    struct session s = {.program = argv[0]};
    int n_sources = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        const bool has_next = i + 1 < argc;
        if (strcmp(argv[i], "--perf") == 0) {
            s.is_perf = true;
        } else if (strcmp(argv[i], "--backend") == 0 && has_next) {
            if (!choose(&s, argv[++i])) return 2;
        } else if (strcmp(argv[i], "--precision") == 0 && has_next) {
            if (!ls_precision_parse(argv[++i], &s.precision)) return usage();
            if (s.precision != LS_PRECISION_F32) s.tolerance = s.precision == LS_PRECISION_BF16 ? 1e-2 : 2e-3;
        } else if (strcmp(argv[i], "--tolerance") == 0 && has_next) {
            s.tolerance = strtod(argv[++i], NULL);
        } else if (strcmp(argv[i], "--case") == 0 && has_next) {
            count_line(&s, argv[++i]);
            n_sources++;
        } else if (argv[i][0] == '-') {
            return usage();
        } else if (ls__dir_exists(argv[i])) {
            count_folder(&s, argv[i]);
            count_nan(&s, "relu mb=1 c=3 h=2");
            count_nan(&s, "maxpool mb=1 c=3 h=4 kh=2 sh=2");
            count_nan(&s, "add mb=1 c=3 h=2 relu=1");
            n_sources++;
        } else {
            count_file(&s, argv[i]);
            n_sources++;
        }
    }
    if (n_sources == 0) return usage();
    printf("%d nodes by implementations that are not the first choice\n", s.n_asked);
    if (s.n_refused) printf("%d refused by name: the plug-in has no kernel for them yet\n", s.n_refused);
    printf("%d passed, %d failed\n", s.n_passed, s.n_failed);
    return s.n_failed == 0 ? 0 : 1;
}
