/* fuzz_lab.c: any bytes as a lab file. What is refused is refused with the file and the line; what is read holds
 * together. */
#include "lab/lab.h"

#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_question(const struct ls_lab *lab, const struct ls_lab_question *q)
{
    if (q->n_runs < 1 || q->n_shows < 1) __builtin_trap();
    for (int i = 0; i < q->n_runs; i++)
        if (q->runs[i] < 0 || q->runs[i] >= lab->n_runs) __builtin_trap();
    for (int i = 0; i < q->n_published; i++)
        if (q->published[i].run < 0 || q->published[i].run >= lab->n_runs) __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct ls_lab *lab;
    int line = 0;
    enum ls_status status = ls__lab_parse(&lab, "fuzz.lab", (const char *)data, len, NULL);
    if (status == LS_NOMEM) return 0;
    if (status != LS_OK) {
        if (status == LS_USAGE && sscanf(ls_error_message(), "fuzz.lab:%d: ", &line) == 1 && line >= 0) return 0;
        fprintf(stderr, "%s without file and line: %s\n", ls_status_name(status), ls_error_message());
        __builtin_trap();
    }
    for (int i = 0; i < lab->n_questions; i++) check_question(lab, &lab->questions[i]);
    for (int i = 0; i < lab->n_runs; i++)
        if (ls__lab_find_run(lab, lab->runs[i].name) != i || lab->runs[i].repeats < 1) __builtin_trap();
    ls__lab_destroy(&lab);
    return 0;
}
