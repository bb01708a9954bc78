/* memory.c: a data set out of the caller's memory (lockstep/data.h), borrowed or copied. */
#include "base/buf.h"
#include "base/mem.h"
#include "data/format.h"
#include "lockstep/data.h"

#include <stdio.h>
#include <string.h>

enum { MAX_SIDE = 8192, MAX_CLASSES = 65536 };

static enum ls_status check(const struct ls_images *m, const char *which)
{
    if (m->c < 1 || m->c > 3 || m->h < 1 || m->w < 1 || m->h > MAX_SIDE || m->w > MAX_SIDE)
        return ls_fail(LS_DATA, "%s are %dx%dx%d, expected 1 to 3 channels and sides of 1 to %d", which, m->c, m->h,
                       m->w, MAX_SIDE);
    if (m->n_classes < 2 || m->n_classes > MAX_CLASSES)
        return ls_fail(LS_DATA, "%s have %d classes, expected 2 to %d", which, m->n_classes, MAX_CLASSES);
    if (m->n < 1 || m->n > UINT32_MAX || m->n > LS_DATA_MAX_BYTES / ((int64_t)m->c * m->h * m->w))
        return ls_fail(LS_DATA, "%s are %lld, expected at least 1 and at most 64 GiB of them", which, (long long)m->n);
    if (!m->pixels || !m->labels) return ls_fail(LS_DATA, "%s have no %s", which, m->pixels ? "labels" : "pixels");
    for (int64_t i = 0; i < m->n; i++)
        if (m->labels[i] >= m->n_classes)
            return ls_fail(LS_DATA, "%s: image %lld has label %d of %d classes", which, (long long)i, m->labels[i],
                           m->n_classes);
    for (int k = 0; k < m->c; k++)
        if (!(m->std[k] >= 0 && m->std[k] < 1e6f) || !(m->mean[k] > -1e6f && m->mean[k] < 1e6f))
            return ls_fail(LS_DATA, "%s: mean %g and std %g of channel %d", which, (double)m->mean[k],
                           (double)m->std[k], k);
    return LS_OK;
}

/* One name per line; a line break within a name would make two of it. */
static enum ls_status join_names(struct ls_dataset *ds, const struct ls_images *m)
{
    struct ls_buf b = LS_BUF_INIT;
    for (int i = 0; m->class_names && i < m->n_classes; i++) {
        const char *name = m->class_names[i] ? m->class_names[i] : "";
        size_t len = strcspn(name, "\n");
        ls__buf_add(&b, name, len);
        ls__buf_add(&b, "\n", 1);
    }
    enum ls_status status = ls__buf_check(&b);
    if (status == LS_OK && b.len > 0) ds->impl->class_names = ls__buf_take(&b);
    ds->class_names = ds->impl->class_names;
    ls__buf_release(&b);
    return status;
}

static enum ls_status build(struct ls_dataset *ds, const char *name, const struct ls_images *m)
{
    bool is_set = false;
    snprintf(ds->name, sizeof ds->name, "%s", name);
    TRY(check(m, ds->split == LS_TRAIN ? "train_images" : "test_images"));
    TRY(ls__calloc(&ds->impl, 1, sizeof *ds->impl));
    ds->c = m->c;
    ds->h = m->h;
    ds->w = m->w;
    ds->n = m->n;
    ds->n_classes = m->n_classes;
    ls__dataset_set_mean_std(ds, (const float[3]){0.5f, 0.5f, 0.5f}, (const float[3]){0.25f, 0.25f, 0.25f});
    for (int k = 0; k < m->c; k++) is_set |= m->std[k] != 0;
    if (is_set) ls__dataset_set_mean_std(ds, m->mean, m->std);
    for (int k = 0; k < m->c; k++)
        if (ds->std[k] == 0) return ls_fail(LS_DATA, "%s: the std of channel %d is 0", name, k);
    if (m->is_copied) {
        TRY(ls__dataset_alloc(ds));
        memcpy(ds->impl->pixels, m->pixels, ds->impl->pixels_bytes);
        memcpy(ds->impl->labels, m->labels, (size_t)m->n * sizeof *m->labels);
    } else {
        ds->pixels = m->pixels;
        ds->labels = m->labels;
    }
    TRY(join_names(ds, m));
    ls__dataset_checksum(ds);
    return LS_OK;
}

enum ls_status ls__data_from_images(struct ls_dataset **out, const char *name, enum ls_split split,
                                    const struct ls_images *images, const struct ls_data_options *options)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    (*out)->split = split;
    enum ls_status status = build(*out, name, images);
    if (status == LS_OK) status = ls__dataset_show_resized(out, options);
    if (status != LS_OK) ls_dataset_close(out);
    return status;
}
