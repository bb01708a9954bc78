/* plan.h: a graph made ready to run: order, implementations, layouts, memory. Plain immutable data; a step decides
 * nothing.
 *
 * Two homes for values:
 *   the store  one per process: parameters, buffers, optimizer state, sums, and copies of parameters in other layouts.
 *              Shared by all plans of a run (another shard size, evaluation). The first plan decides its layouts.
 *   the arena  one per thread: everything that lives within a shard, packed by lifetime.
 *
 * Four lists of ops:
 *   pre    once per step before any shard (a parameter brought into another layout)
 *   shard  once per shard, in order
 *   join   once per step after all shards: gradients of large layers over the samples the shards kept, in parts
 *   post   once per step after the reduction (updates), in any order, large ones in parts
 */
#ifndef LS_PLAN_H
#define LS_PLAN_H

#include "backend/backend.h"
#include "base/status.h"
#include "graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ls_stored {
    char *name;
    enum ls_value_kind kind;
    enum ls_dtype dtype;
    struct ls_shape shape;
    struct ls_layout layout; /* ANY until the first consumer has chosen */
    enum ls_init init;
    float init_bound;
    int source;       /* a derived copy: the entry it is made from; -1 otherwise */
    int64_t version;  /* derived: the version of the source it was made from, -1 = never */
    void *data;       /* layout.bytes, 64-byte aligned; NULL until ls_store_allocate */
    bool is_borrowed; /* data is somebody else's to free */
};

/* Where the values of a store lie; the executor sets it. */
struct ls_store_memory {
    enum ls_status (*give)(void *owner, size_t bytes, void **out); /* zeroed */
    void (*take_back)(void *owner, void *data, size_t bytes);
    void *owner;
};

struct ls_store {
    struct ls_stored *entries;
    int n_entries;
    int64_t version; /* raised whenever parameters change */
    size_t bytes;
    struct ls_store_memory memory;
};

enum ls_status ls_store_create(struct ls_store **out) LS_MUST_CHECK;
void ls_store_destroy(struct ls_store **store);
int ls_store_find(const struct ls_store *store, const char *name); /* -1 if absent */
/* Memory for every entry that has none yet. */
enum ls_status ls_store_allocate(struct ls_store *store) LS_MUST_CHECK;
void ls_store_release(struct ls_store *store); /* gives all of it back */

/* Whether an entry is part of the run's state: parameters, buffers, the optimizer's; not sums, kept rows and copies. */
bool ls_stored_is_saved(const struct ls_stored *entry);

/* Where a value lies. */
struct ls_slot {
    struct ls_layout layout;
    int stored;    /* entry of the store, or -1: in the arena */
    size_t offset; /* in the arena, from its start */
    size_t bytes;
    int first, last; /* shard ops between which it lives (arena only); first == -1: before the first */
    bool is_used;
};

enum ls_phase { LS_PRE, LS_SHARD, LS_JOIN, LS_POST };

struct ls_plan_op {
    struct ls_node node; /* inputs replaced by reordered values where needed; name borrowed from the graph */
    struct ls_kernel *kernel;
    enum ls_phase phase;
    int n_parts;           /* POST, REDUCE: parts it may be cut into */
    size_t scratch_offset; /* in the arena: kernel->scratch_bytes that nothing alive during the op uses */
    char *refused;         /* "dnnl: reason; ..." or NULL */
    bool is_tuned;         /* chosen because a tuning table lists it */
    double flops;
};

struct ls_tune; /* which implementation computes which problem: plan/tune.h */

struct ls_plan {
    struct ls_graph *graph; /* owned */
    const struct ls_backend *backend;
    struct ls_device *device;   /* borrowed */
    struct ls_store *store;     /* borrowed */
    const struct ls_tune *tune; /* borrowed, while planning; NULL: no table */
    struct ls_plan_op *ops;     /* all phases, in order */
    int n_ops;
    int n_pre, n_shard, n_join, n_post;
    struct ls_slot *slots; /* per value of the graph */
    int n_slots;
    size_t arena_bytes; /* values and scratch, packed together */
    double shard_flops;
};

/* Takes over *graph (also on failure) and sets it to NULL. The store gets the entries the graph needs. */
enum ls_status ls_plan_create(struct ls_plan **out, struct ls_graph **graph, const struct ls_backend *backend,
                              struct ls_device *device, struct ls_store *store) LS_MUST_CHECK;
/* The same with a tuning table (plan/tune.h): what it lists is tried before the backend's own order. */
enum ls_status ls_plan_create_tuned(struct ls_plan **out, struct ls_graph **graph, const struct ls_backend *backend,
                                    struct ls_device *device, struct ls_store *store,
                                    const struct ls_tune *tune) LS_MUST_CHECK;
void ls_plan_destroy(struct ls_plan **plan);

/* For people; free() the text. */
enum ls_status ls_plan_text(const struct ls_plan *plan, char **text) LS_MUST_CHECK;
enum ls_status ls_plan_json(const struct ls_plan *plan, char **text) LS_MUST_CHECK; /* for programs */
/* XXH3-128 over everything that can change the bits of a result: ops, implementations, layouts. 32 hex digits. */
enum ls_status ls_plan_hash(const struct ls_plan *plan, char hex[33]) LS_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
