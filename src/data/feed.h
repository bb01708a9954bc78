/* feed.h: a batch by its number, for who does not go through them in order (a worker that computes some shards of a
 * batch, or some batches of an epoch). What is in a batch is what the loader gives (data.h).
 *
 *     TRY(ls_feed_batch(feed, epoch, step, &batch));      samples and labels of all
 *     TRY(ls_feed_read(feed, first, n));                  and the pixels of those that are computed here
 */
#ifndef LS_DATA_FEED_H
#define LS_DATA_FEED_H

#include "data/data.h"

struct ls_feed;

enum ls_status ls_feed_create(struct ls_feed **out, const struct ls_dataset *ds, int batch_size,
                              uint64_t seed) LS_MUST_CHECK;
void ls_feed_destroy(struct ls_feed **feed);
/* Valid until the next call. No pixels but through ls_feed_read. */
enum ls_status ls_feed_batch(struct ls_feed *feed, int64_t epoch, int64_t step, struct ls_batch *batch) LS_MUST_CHECK;
/* Of samples [first, first + n) of the present batch. Several threads at a time, each its own samples. */
enum ls_status ls_feed_read(struct ls_feed *feed, int first, int n) LS_MUST_CHECK;

#endif
