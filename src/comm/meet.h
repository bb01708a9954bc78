/* meet.h: a transport without MPI: processes that were started one by one, each with its rank and the address of rank
 * 0, over src/wire. What meet.c, meet_join.c and meet_words.c share.
 *
 * Every rank listens. How they find each other (meet_join.c):
 *
 *     rank b                       rank 0, at the master's address
 *       JOIN n, rank, address -->    checks: same n, rank free          REFUSE with the reason otherwise
 *                            <--   WELCOME session
 *                            <--   TABLE of addresses                   when all have joined
 *       MEET to 1 .. b-1, who say MET; MEET from b+1 .. n-1
 *       LACKS ranks          -->    for its words if they never meet        now and then
 *       READY                -->
 *                            <--   GO                                   when all are ready
 *
 * From then on there are only messages with a rank and a tag (DATA), and BYE. There is one such job in a process, as
 * with MPI, and all of it belongs to the communication thread.
 */
#ifndef LS_COMM_MEET_H
#define LS_COMM_MEET_H

#include "comm/transport.h"
#include "wire/frame.h"
#include "wire/wire.h"

enum { LS__MEET_ADDRESS = 128, LS__MEET_ERROR = 1024, LS__MEET_NAMED = 8 };

/* What the environment says; see comm.h. */
struct ls__meet_config {
    int rank, n;
    const char *master, *key_file; /* key_file NULL: none */
    double timeout;
    bool (*is_stopped)(void *context); /* (optional) nobody wants to wait any longer for the others */
    void *context;
};

enum ls__meet_kind {
    MEET_JOIN = 1,
    MEET_WELCOME,
    MEET_TABLE,
    MEET_MEET,
    MEET_MET,
    MEET_READY,
    MEET_GO,
    MEET_REFUSE,
    MEET_DATA,
    MEET_BYE,
    MEET_LACKS
};

struct ls__meet_node {
    uint64_t peer; /* what the wire calls it, if is_known */
    bool is_known, is_met, is_ready, has_left, is_lost;
    uint64_t instance;              /* which process: a number it drew */
    uint64_t session;               /* as it said in MEET; 0 before */
    uint64_t n_sent, heard;         /* numbers of the last messages */
    char address[LS__MEET_ADDRESS]; /* where it listens */
    char host[64];
    uint32_t lacks[LS__MEET_NAMED]; /* rank 0's: whom it looks for, by its own word */
    size_t n_lacks;
};

/* A request of meet.c's. */
struct ls__meet_op {
    struct ls__meet_op *next; /* in the list of receives that wait */
    void *data;
    size_t bytes;
    int from;
    int64_t tag;
    bool is_send, is_done;
    struct ls_wire_buffer *lent; /* a send's: done when it is no longer shared */
};

/* A message that nobody waits for yet. */
struct ls__meet_early {
    struct ls__meet_early *next;
    struct ls_wire_message message;
    int from;
    int64_t tag;
};

struct ls__meet {
    struct ls__meet_config config;
    struct ls_wire *wire;
    struct ls__meet_node *nodes; /* [n]; the own one has an address only */
    uint64_t session, instance;
    bool is_welcome, has_table, is_ready, has_begun; /* how far this rank is */
    int n_refused, refused_by;    /* connections that were refused, one after the other; the last one by whom */
    int64_t refused_ns;           /* the first of them */
    int n_busy;                   /* times rank 0 said that the rank is taken */
    int64_t ask_ns;               /* when to ask again, or 0 */
    int64_t lacks_ns;             /* when to tell again whom this rank has not met */
    struct ls__meet_op *waiting;  /* receives, oldest first */
    struct ls__meet_early *early; /* oldest first */
    char error[LS__MEET_ERROR];
};

/* meet_join.c: until all know each other. */
enum ls_status ls__meet_join(struct ls__meet *j) LS_MUST_CHECK;
/* A message that is neither DATA nor BYE. */
enum ls_status ls__meet_join_hear(struct ls__meet *j, uint64_t peer, const struct ls_frame *f,
                                  struct ls_frame_reader *body) LS_MUST_CHECK;
/* A connection that we asked for is made, or is refused. */
enum ls_status ls__meet_join_event(struct ls__meet *j, uint64_t peer, enum ls_wire_event event) LS_MUST_CHECK;

/* meet_words.c: what a rank says while it waits, and why it does so no longer. */
void ls__meet_say_waiting(const struct ls__meet *j);
enum ls_status ls__meet_too_late(const struct ls__meet *j) LS_MUST_CHECK;        /* LS_TIMEOUT, with who is missing */
size_t ls__meet_lacks(const struct ls__meet *j, uint32_t lacks[LS__MEET_NAMED]); /* the first that it has not met */
void ls__meet_hear_lacks(struct ls__meet_node *node, struct ls_frame_reader *body);

/* meet.c */
int ls__meet_rank_of(const struct ls__meet *j, uint64_t peer); /* -1: nobody of the job */
/* Everything that has come, or the first thing within timeout_ms. */
enum ls_status ls__meet_pump(struct ls__meet *j, int timeout_ms) LS_MUST_CHECK;
/* Before open: what this process is. */
void ls__meet_configure(const struct ls__meet_config *config);
extern const struct ls_transport ls__meet_transport;

#endif
