/* tensorboard_real.c: event files by protobuf-c. Messages are put together on the stack and packed into one record. */
#include "record/tensorboard.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/png.h"
#include "record/crc32c.h"
#include "tensorboard.pb-c.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct ls_tensorboard {
    pthread_mutex_t lock; /* of fd */
    int fd;               /* -1: a record could not be written, and no more will be */
    char path[LS_PATH_BYTES];
};

/* Protobuf-c wants strings that it could change; it does not. */
static char *text_of(const char *text)
{
    return (char *)text;
}

static double wall_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void give_up(struct ls_tensorboard *tb, int error)
{
    pthread_mutex_lock(&tb->lock);
    if (tb->fd >= 0) {
        ls__log(LS_LOG_WARN, "write %s: %s; no more TensorBoard events are written, training goes on", tb->path,
                strerror(error));
        close(tb->fd);
    }
    tb->fd = -1;
    pthread_mutex_unlock(&tb->lock);
}

/* The error, or 0. */
static int write_record(struct ls_tensorboard *tb, const uint8_t *record, size_t n)
{
    ssize_t done = (ssize_t)n;
    int error = ENOSPC; /* of one that is cut short */
    pthread_mutex_lock(&tb->lock);
    while (tb->fd >= 0 && (done = write(tb->fd, record, n)) < 0 && (error = errno) == EINTR) continue;
    pthread_mutex_unlock(&tb->lock);
    return done == (ssize_t)n ? 0 : error;
}

/* length, its checksum, the event, its checksum; little-endian as this machine. */
static void write_event(struct ls_tensorboard *tb, LsTb__Event *event)
{
    event->wall_time = wall_time();
    uint64_t n = ls_tb__event__get_packed_size(event);
    uint8_t *record = malloc(n + 16);
    if (!record) return give_up(tb, ENOMEM);
    memcpy(record, &n, 8);
    uint32_t crc = ls__crc32c_masked(record, 8);
    memcpy(record + 8, &crc, 4);
    ls_tb__event__pack(event, record + 12);
    crc = ls__crc32c_masked(record + 12, n);
    memcpy(record + 12 + n, &crc, 4);
    int error = write_record(tb, record, n + 16);
    free(record);
    if (error) give_up(tb, error);
}

static void write_value(struct ls_tensorboard *tb, int64_t step, LsTb__Value *value)
{
    LsTb__Value *values[] = {value};
    LsTb__Summary summary = LS_TB__SUMMARY__INIT;
    LsTb__Event event = LS_TB__EVENT__INIT;
    summary.n_value = 1;
    summary.value = values;
    event.step = step;
    event.what_case = LS_TB__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    write_event(tb, &event);
}

enum ls_status ls__tensorboard_open(struct ls_tensorboard **out, const struct ls_dir *dir, int64_t first_step)
{
    char host[65] = "host", name[160];
    LsTb__Event version = LS_TB__EVENT__INIT, start = LS_TB__EVENT__INIT;
    LsTb__SessionLog log = LS_TB__SESSION_LOG__INIT;
    struct ls_tensorboard *tb;
    TRY(ls__calloc(&tb, 1, sizeof *tb));
    pthread_mutex_init(&tb->lock, NULL);
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "events.out.tfevents.%lld.%s.%d.0", (long long)time(NULL), host, (int)getpid());
    enum ls_status status = ls__dir_open_file(dir, name, O_WRONLY | O_APPEND | O_CREAT, &tb->fd, LS_IO);
    if (status != LS_OK) {
        free(tb);
        *out = NULL;
        return status;
    }
    snprintf(tb->path, sizeof tb->path, "%.*s/%s", (int)(sizeof tb->path - sizeof name - 2), dir->path, name);
    version.what_case = LS_TB__EVENT__WHAT_FILE_VERSION;
    version.file_version = text_of("brain.Event:2");
    write_event(tb, &version);
    if (first_step > 0) {
        log.status = 1;
        start.step = first_step + 1;
        start.what_case = LS_TB__EVENT__WHAT_SESSION_LOG;
        start.session_log = &log;
        write_event(tb, &start);
    }
    *out = tb;
    return LS_OK;
}

void ls__tensorboard_close(struct ls_tensorboard **tb)
{
    if (!*tb) return;
    if ((*tb)->fd >= 0) close((*tb)->fd);
    pthread_mutex_destroy(&(*tb)->lock);
    free(*tb);
    *tb = NULL;
}

void ls__tensorboard_scalar(struct ls_tensorboard *tb, int64_t step, const char *tag, double number)
{
    LsTb__Value value = LS_TB__VALUE__INIT;
    if (!tb || !isfinite(number)) return;
    value.tag = text_of(tag);
    value.value_case = LS_TB__VALUE__VALUE_SIMPLE_VALUE;
    value.simple_value = (float)number;
    write_value(tb, step, &value);
}

/* --- texts and options: a summary whose metadata name the plug-in that shows it --- */

static void write_for_plugin(struct ls_tensorboard *tb, int64_t step, const char *tag, const char *plugin,
                             ProtobufCBinaryData content, const char *text)
{
    LsTb__PluginData data = LS_TB__PLUGIN_DATA__INIT;
    LsTb__Metadata metadata = LS_TB__METADATA__INIT;
    LsTb__TensorShape shape = LS_TB__TENSOR_SHAPE__INIT;
    LsTb__Tensor tensor = LS_TB__TENSOR__INIT;
    LsTb__Value value = LS_TB__VALUE__INIT;
    ProtobufCBinaryData string = {.len = text ? strlen(text) : 0, .data = (uint8_t *)text_of(text)};
    enum { DT_STRING = 7 };
    data.plugin_name = text_of(plugin);
    data.content = content;
    metadata.plugin_data = &data;
    tensor.dtype = DT_STRING;
    tensor.tensor_shape = &shape; /* no dimension: one string */
    tensor.n_string_val = 1;
    tensor.string_val = &string;
    value.tag = text_of(tag);
    value.metadata = &metadata;
    if (text) {
        value.value_case = LS_TB__VALUE__VALUE_TENSOR;
        value.tensor = &tensor;
    }
    write_value(tb, step, &value);
}

void ls__tensorboard_text(struct ls_tensorboard *tb, int64_t step, const char *tag, const char *text)
{
    if (tb) write_for_plugin(tb, step, tag, "text", (ProtobufCBinaryData){0}, text);
}

static void write_hparams(struct ls_tensorboard *tb, const char *tag, LsTb__HparamsData *data)
{
    size_t n = ls_tb__hparams_data__get_packed_size(data);
    uint8_t *packed = malloc(n + 1);
    if (!packed) return give_up(tb, ENOMEM);
    ls_tb__hparams_data__pack(data, packed);
    write_for_plugin(tb, 0, tag, "hparams", (ProtobufCBinaryData){.len = n, .data = packed}, NULL);
    free(packed);
}

/* False: nothing that can be compared. */
static bool take_option(LsTb__OptionValue *out, const json_t *value)
{
    *out = (LsTb__OptionValue)LS_TB__OPTION_VALUE__INIT;
    if (json_is_number(value)) {
        out->kind_case = LS_TB__OPTION_VALUE__KIND_NUMBER_VALUE;
        out->number_value = json_number_value(value);
    } else if (json_is_boolean(value)) {
        out->kind_case = LS_TB__OPTION_VALUE__KIND_BOOL_VALUE;
        out->bool_value = json_is_true(value);
    } else if (json_is_string(value)) {
        out->kind_case = LS_TB__OPTION_VALUE__KIND_STRING_VALUE;
        out->string_value = text_of(json_string_value(value));
    }
    return out->kind_case != LS_TB__OPTION_VALUE__KIND__NOT_SET;
}

void ls__tensorboard_options(struct ls_tensorboard *tb, const struct json_t *values)
{
    enum { MAX_OPTIONS = 256 };
    LsTb__SessionStart__HparamsEntry entries[MAX_OPTIONS], *list[MAX_OPTIONS];
    LsTb__OptionValue options[MAX_OPTIONS];
    LsTb__SessionStart start = LS_TB__SESSION_START__INIT;
    LsTb__HparamsData data = LS_TB__HPARAMS_DATA__INIT;
    const char *key;
    json_t *value;
    if (!tb) return;
    json_object_foreach((json_t *)values, key, value)
    {
        size_t n = start.n_hparams;
        if (n == MAX_OPTIONS || !take_option(&options[n], value)) continue;
        entries[n] = (LsTb__SessionStart__HparamsEntry)LS_TB__SESSION_START__HPARAMS_ENTRY__INIT;
        entries[n].key = text_of(key);
        entries[n].value = &options[n];
        list[start.n_hparams++] = &entries[n];
    }
    start.hparams = list;
    start.start_time_secs = wall_time();
    data.data_case = LS_TB__HPARAMS_DATA__DATA_SESSION_START_INFO;
    data.session_start_info = &start;
    write_hparams(tb, "_hparams_/session_start_info", &data);
}

void ls__tensorboard_options_end(struct ls_tensorboard *tb, bool is_done)
{
    LsTb__SessionEnd end = LS_TB__SESSION_END__INIT;
    LsTb__HparamsData data = LS_TB__HPARAMS_DATA__INIT;
    if (!tb) return;
    end.status = is_done ? 1 : 2;
    end.end_time_secs = wall_time();
    data.data_case = LS_TB__HPARAMS_DATA__DATA_SESSION_END_INFO;
    data.session_end_info = &end;
    write_hparams(tb, "_hparams_/session_end_info", &data);
}

/* --- histograms --- */

enum { N_BUCKETS = 64 };

void ls__tensorboard_histogram(struct ls_tensorboard *tb, int64_t step, const char *tag, const float *values, int64_t n)
{
    LsTb__Histogram histogram = LS_TB__HISTOGRAM__INIT;
    LsTb__Value value = LS_TB__VALUE__INIT;
    double limits[N_BUCKETS], counts[N_BUCKETS] = {0};
    if (!tb) return;
    histogram.min = INFINITY;
    histogram.max = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        double v = (double)values[i];
        if (!isfinite(v)) continue;
        histogram.min = fmin(histogram.min, v);
        histogram.max = fmax(histogram.max, v);
        histogram.num++;
        histogram.sum += v;
        histogram.sum_squares += v * v;
    }
    if (histogram.num == 0) return;
    double width = (histogram.max - histogram.min) / N_BUCKETS;
    for (int i = 0; i < N_BUCKETS; i++) limits[i] = histogram.min + width * (i + 1);
    limits[N_BUCKETS - 1] = histogram.max;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(values[i])) continue;
        int at = width > 0 ? (int)(((double)values[i] - histogram.min) / width) : 0;
        counts[at < N_BUCKETS ? at : N_BUCKETS - 1]++;
    }
    histogram.n_bucket = histogram.n_bucket_limit = width > 0 ? N_BUCKETS : 1;
    if (!(width > 0)) limits[0] = histogram.max;
    histogram.bucket_limit = limits;
    histogram.bucket = counts;
    value.tag = text_of(tag);
    value.value_case = LS_TB__VALUE__VALUE_HISTO;
    value.histo = &histogram;
    write_value(tb, step, &value);
}

/* --- pictures --- */

void ls__tensorboard_image(struct ls_tensorboard *tb, int64_t step, const char *tag, int c, int h, int w,
                           const uint8_t *pixels)
{
    struct ls_buf png = LS_BUF_INIT;
    LsTb__Image image = LS_TB__IMAGE__INIT;
    LsTb__Value value = LS_TB__VALUE__INIT;
    if (!tb || ls__png_encode(c, h, w, pixels, &png) != LS_OK) {
        ls__buf_release(&png);
        return;
    }
    image.height = h;
    image.width = w;
    image.colorspace = c;
    image.encoded_image_string = (ProtobufCBinaryData){.len = png.len, .data = (uint8_t *)png.text};
    value.tag = text_of(tag);
    value.value_case = LS_TB__VALUE__VALUE_IMAGE;
    value.image = &image;
    write_value(tb, step, &value);
    ls__buf_release(&png);
}

/* --- the network --- */

/* One node with all that its message points to. */
struct node {
    LsTb__NodeDef def, *at;
    LsTb__NodeDef__AttrEntry entry, *entries[1];
    LsTb__AttrValue attr;
    LsTb__AttrValue__List list;
    LsTb__TensorShape shape, *shapes[1];
    LsTb__TensorShape__Dim dim[6], *dims[6];
};

static void fill_node(struct node *out, const struct ls_tensorboard_node *in)
{
    out->shape = (LsTb__TensorShape)LS_TB__TENSOR_SHAPE__INIT;
    for (int i = 0; i < in->n_dims && i < 6; i++) {
        out->dim[i] = (LsTb__TensorShape__Dim)LS_TB__TENSOR_SHAPE__DIM__INIT;
        out->dim[i].size = in->dims[i];
        out->dims[i] = &out->dim[i];
        out->shape.n_dim++;
    }
    out->shape.dim = out->dims;
    out->shapes[0] = &out->shape;
    out->list = (LsTb__AttrValue__List)LS_TB__ATTR_VALUE__LIST__INIT;
    out->list.n_shape = 1;
    out->list.shape = out->shapes;
    out->attr = (LsTb__AttrValue)LS_TB__ATTR_VALUE__INIT;
    out->attr.value_case = LS_TB__ATTR_VALUE__VALUE_LIST;
    out->attr.list = &out->list;
    out->entry = (LsTb__NodeDef__AttrEntry)LS_TB__NODE_DEF__ATTR_ENTRY__INIT;
    out->entry.key = text_of("_output_shapes");
    out->entry.value = &out->attr;
    out->entries[0] = &out->entry;
    out->def = (LsTb__NodeDef)LS_TB__NODE_DEF__INIT;
    out->def.name = text_of(in->name);
    out->def.op = text_of(in->op);
    out->def.n_input = (size_t)in->n_inputs;
    out->def.input = (char **)in->inputs;
    out->def.n_attr = in->n_dims > 0 ? 1 : 0;
    out->def.attr = out->entries;
    out->at = &out->def;
}

static void write_graph(struct ls_tensorboard *tb, LsTb__GraphDef *graph)
{
    LsTb__Event event = LS_TB__EVENT__INIT;
    size_t n = ls_tb__graph_def__get_packed_size(graph);
    uint8_t *packed = malloc(n + 1);
    if (!packed) return give_up(tb, ENOMEM);
    ls_tb__graph_def__pack(graph, packed);
    event.what_case = LS_TB__EVENT__WHAT_GRAPH_DEF;
    event.graph_def = (ProtobufCBinaryData){.len = n, .data = packed};
    write_event(tb, &event);
    free(packed);
}

void ls__tensorboard_graph(struct ls_tensorboard *tb, const struct ls_tensorboard_node *nodes, int n_nodes)
{
    LsTb__GraphDef graph = LS_TB__GRAPH_DEF__INIT;
    LsTb__GraphDef__Versions versions = LS_TB__GRAPH_DEF__VERSIONS__INIT;
    if (!tb) return;
    struct node *made = calloc((size_t)n_nodes + 1, sizeof *made);
    graph.node = calloc((size_t)n_nodes + 1, sizeof(LsTb__NodeDef *));
    graph.n_node = (size_t)n_nodes;
    versions.producer = 22; /* any that knows shapes */
    graph.versions = &versions;
    for (int i = 0; made && graph.node && i < n_nodes; i++) {
        fill_node(&made[i], &nodes[i]);
        graph.node[i] = made[i].at;
    }
    if (made && graph.node) write_graph(tb, &graph);
    free((void *)graph.node);
    free(made);
}
