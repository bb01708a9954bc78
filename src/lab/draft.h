/* draft.h: a lab file as it was written, line by line, before its runs are expanded (parse.c makes it, expand.c reads
 * it). All memory is the lab's arena.
 */
#ifndef LS_LAB_DRAFT_H
#define LS_LAB_DRAFT_H

#include "lab/lab.h"

/* A list that grows in the arena. */
struct draft_list {
    int n;
    void *at;
};

struct draft_word {
    const char *text;
    int line;
};

struct draft_vary {
    const char *key;
    const char **values;
    int n_values, line;
};

struct draft_run {
    const char *name;
    struct draft_list settings; /* struct ls_lab_setting */
    struct draft_list varies;   /* struct draft_vary */
    int line;
};

struct draft_published {
    enum ls_lab_show what;
    const char *run;
    double low, high;
    bool is_unsure;
    int line;
};

struct draft_question {
    const char *id, *title;
    struct draft_list text;              /* char */
    struct draft_list base;              /* struct ls_lab_setting */
    struct draft_list runs;              /* struct draft_run */
    struct draft_list uses;              /* struct draft_word */
    struct draft_list published;         /* struct draft_published */
    struct draft_list compares;          /* struct draft_word: keys */
    struct draft_word baseline;          /* text NULL: none */
    enum ls_lab_show shows[LS_N_SHOWS];  /* [n_shows] in the order of its line */
    int n_shows, show_lines[LS_N_SHOWS]; /* the line of each; 0: not shown */
    int repeat;                          /* 0: the lab's */
    int line;
};

struct draft {
    struct ls_lab *lab;
    const char *origin;
    const struct ls_lab_rules *rules; /* or NULL */
    struct draft_list text;           /* char */
    struct draft_list base;           /* struct ls_lab_setting */
    struct draft_list questions;      /* struct draft_question */
    int repeat;
};

/* LS_USAGE, "origin:line: ...". */
enum ls_status ls__draft_fail(const struct draft *d, int line, const char *fmt, ...) LS_PRINTF(3, 4) LS_MUST_CHECK;
/* One more element of `size` bytes, zeroed. */
enum ls_status ls__draft_grow(struct draft *d, struct draft_list *list, size_t size, void *out) LS_MUST_CHECK;

/* A list of char as a text; "" if it is empty. */
enum ls_status ls__draft_text(struct draft *d, struct draft_list *list, const char **out) LS_MUST_CHECK;

/* The next word of a line, cut out of it; "..." keeps its blanks. *word NULL: none is left. */
enum ls_status ls__draft_word(const struct draft *d, int line, char **rest, char **word) LS_MUST_CHECK;

/* The setting's own name. */
enum ls_status ls__draft_key(struct draft *d, int line, const char *word, const char **key) LS_MUST_CHECK;

/* shown.c: the rest of a line behind `show`, `compare` and `published`. */
enum ls_status ls__draft_read_show(struct draft *d, struct draft_question *q, int line, char *rest) LS_MUST_CHECK;
enum ls_status ls__draft_read_compare(struct draft *d, struct draft_question *q, int line, char *rest) LS_MUST_CHECK;
enum ls_status ls__draft_read_published(struct draft *d, struct draft_question *q, int line, char *rest) LS_MUST_CHECK;

/* names.c. all: struct ls_lab_run, those made so far. what: the word of the line. */
/* One run of the question by name, or by its `run` line where that is one run. */
enum ls_status ls__draft_find_run(const struct draft *d, const struct draft_list *all, const struct ls_lab_question *q,
                                  const char *what, const struct draft_word *word, int *out) LS_MUST_CHECK;
enum ls_status ls__draft_unknown_run(const struct draft *d, const struct draft_list *all, int line, const char *what,
                                     const char *name) LS_MUST_CHECK;

/* draft -> d->lab. */
enum ls_status ls__draft_expand(struct draft *d) LS_MUST_CHECK;

#endif
