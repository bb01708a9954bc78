/* more.cu: resized crops, colours, erasing, mixup and cutmix, with the arithmetic of ref/augment.c and ref/mix.c, so
 * that the floats are the CPU's to the bit. What is random was drawn by the host.
 *
 * One block has a sample from its bytes to its floats; a thread has the same pixels in every pass, so that only the
 * mean of contrast, which is added up in order by one thread, needs the others to wait.
 */
#include "backend/cuda/kernels/placement.cuh"

struct image {
    const struct ls_cuda_augment &a;
    const struct ls_cuda_drawn &d;
    const struct ls_placement &at;
    const struct ls_cutout &cut;
    const uint8_t *bytes; /* [c,h,w] */
    float *out;           /* [c,h,w] */
    int hw;
};

/* --- crops --- */

struct between {
    int at, next;
    float share;
};

static __device__ __forceinline__ struct between find(int i, int n, int m)
{
    float x = ((float)i + 0.5f) * ((float)m / (float)n) - 0.5f;
    x = x < 0.0f ? 0.0f : x;
    struct between b;
    b.at = (int)x;
    if (b.at > m - 1) b.at = m - 1;
    b.next = b.at + 1 < m ? b.at + 1 : b.at;
    b.share = x - (float)b.at;
    return b;
}

static __device__ float resized(const struct image &m, const uint8_t *plane, int y, int x)
{
    const int w = m.a.w;
    const struct between v = find(y, m.a.h, m.d.crop_h), u = find(m.at.is_mirrored ? w - 1 - x : x, w, m.d.crop_w);
    const uint8_t *top = plane + (m.d.crop_y + v.at) * w + m.d.crop_x;
    const uint8_t *bottom = plane + (m.d.crop_y + v.next) * w + m.d.crop_x;
    const float a = (float)top[u.at] + u.share * ((float)top[u.next] - (float)top[u.at]);
    const float b = (float)bottom[u.at] + u.share * ((float)bottom[u.next] - (float)bottom[u.at]);
    return (a + v.share * (b - a)) * (1.0f / 255.0f);
}

static __device__ float moved(const struct image &m, const uint8_t *plane, int c, int y, int x)
{
    const int from_y = y + m.at.dy, from_x = (m.at.is_mirrored ? m.a.w - 1 - x : x) + m.at.dx;
    if (from_y < 0 || from_y >= m.a.h || from_x < 0 || from_x >= m.a.w) return m.a.offset[c];
    return (float)plane[from_y * m.a.w + from_x] * m.a.scale[c] + m.a.offset[c];
}

static __device__ void place(const struct image &m)
{
    for (int i = threadIdx.x; i < m.hw; i += THREADS)
        for (int c = 0; c < m.a.c; c++) {
            const uint8_t *plane = m.bytes + (int64_t)c * m.hw;
            const int y = i / m.a.w, x = i % m.a.w;
            m.out[c * m.hw + i] = m.d.crop_h > 0 ? resized(m, plane, y, x) : moved(m, plane, c, y, x);
        }
}

/* --- colours --- */

static __device__ __forceinline__ float clamp(float x)
{
    return x < 0.0f ? 0.0f : x > 1.0f ? 1.0f : x;
}

static __device__ __forceinline__ float grey_of(const struct image &m, int i)
{
    return 0.2989f * m.out[i] + 0.587f * m.out[m.hw + i] + 0.114f * m.out[2 * m.hw + i];
}

static __device__ void blend(const struct image &m, float factor, float other)
{
    const float offset = (1.0f - factor) * other;
    for (int i = threadIdx.x; i < m.hw; i += THREADS)
        for (int c = 0; c < m.a.c; c++) {
            float *p = m.out + c * m.hw + i;
            *p = clamp(factor * *p + offset);
        }
}

/* Added up one after the other, as ref does. Without three channels: of all elements in their order. */
static __device__ float mean_grey(const struct image &m)
{
    __shared__ float tile[THREADS];
    __shared__ float mean;
    const int n = m.a.c == 3 ? m.hw : m.a.c * m.hw;
    double sum = 0.0;
    for (int first = 0; first < n; first += THREADS) {
        const int i = first + threadIdx.x;
        __syncthreads(); /* the pixels of others are there, and the tile is free */
        if (i < n) tile[threadIdx.x] = m.a.c == 3 ? grey_of(m, i) : m.out[i];
        __syncthreads();
        for (int k = 0; threadIdx.x == 0 && k < THREADS && first + k < n; k++) sum += (double)tile[k];
    }
    if (threadIdx.x == 0) mean = (float)(sum / (double)n);
    __syncthreads();
    return mean;
}

static __device__ void saturate(const struct image &m, float factor)
{
    for (int i = threadIdx.x; i < m.hw; i += THREADS) {
        const float grey = (1.0f - factor) * grey_of(m, i);
        for (int c = 0; c < 3; c++) m.out[c * m.hw + i] = clamp(factor * m.out[c * m.hw + i] + grey);
    }
}

static __device__ void turn_hue(const struct image &m, float turn)
{
    for (int i = threadIdx.x; i < m.hw; i += THREADS) {
        const float r = m.out[i], g = m.out[m.hw + i], b = m.out[2 * m.hw + i];
        const float max = r > g ? (r > b ? r : b) : (g > b ? g : b), min = r < g ? (r < b ? r : b) : (g < b ? g : b);
        const float range = max - min;
        if (range <= 0.0f) continue; /* grey has no hue */
        float h = max == r ? (g - b) / range : max == g ? 2.0f + (b - r) / range : 4.0f + (r - g) / range;
        h = h / 6.0f + turn;
        h -= floorf(h);
        const float sixth = h * 6.0f, whole = floorf(sixth), f = sixth - whole, s = range / max;
        const float p = clamp(max * (1.0f - s)), q = clamp(max * (1.0f - s * f));
        const float t = clamp(max * (1.0f - s * (1.0f - f)));
        const int at = (int)whole % 6;
        m.out[i] = at == 0 || at == 5 ? max : at == 1 ? q : at == 4 ? t : p;
        m.out[m.hw + i] = at == 1 || at == 2 ? max : at == 0 ? t : at == 3 ? q : p;
        m.out[2 * m.hw + i] = at == 3 || at == 4 ? max : at == 2 ? t : at == 5 ? q : p;
    }
}

static __device__ void colour(const struct image &m)
{
    for (int k = 0; k < LS_CUDA_N_COLOURS; k++) {
        const int which = m.d.colours[k];
        if (which == LS_CUDA_BRIGHTNESS) blend(m, m.d.by[which], 0.0f);
        if (which == LS_CUDA_CONTRAST) blend(m, m.d.by[which], mean_grey(m));
        if (which == LS_CUDA_SATURATION) saturate(m, m.d.by[which]);
        if (which == LS_CUDA_HUE) turn_hue(m, m.d.by[which]);
    }
}

/* --- the rest --- */

static __device__ void finish(const struct image &m, const struct ls_cuda_more &more)
{
    for (int i = threadIdx.x; i < m.hw; i += THREADS) {
        const int y = i / m.a.w, x = i % m.a.w;
        const bool is_cut = y >= m.cut.y0 && y < m.cut.y1 && x >= m.cut.x0 && x < m.cut.x1;
        const struct ls_cuda_box &e = m.d.erased;
        const bool is_erased = y >= e.y0 && y < e.y1 && x >= e.x0 && x < e.x1;
        for (int c = 0; c < m.a.c; c++) {
            float *p = m.out + c * m.hw + i;
            if (more.is_apart) *p = *p * more.scale[c] + more.offset[c];
            if (is_cut || is_erased) *p = 0.0f;
        }
    }
}

/* Own label and share where it is not mixed: of an odd number the last, in evaluation all, and padding. */
static __device__ void tell_labels(const struct ls_cuda_more &more, int i)
{
    const struct ls_cuda_augment &a = more.a;
    const bool is_padding = i >= a.n;
    const int partner = i ^ 1;
    const bool is_mixed = more.is_mixing && !is_padding && partner < a.n;
    a.dst_samples[i] = is_padding ? 0 : a.samples[i];
    a.dst_labels[i] = is_padding ? -1 : a.labels[i];
    if (!more.dst_mix_labels) return;
    more.dst_mix_labels[i] = is_padding ? -1 : a.labels[is_mixed ? partner : i];
    more.dst_mix_shares[i] = is_mixed ? more.drawn[i].share : 1.0f;
}

static __global__ void augment_more(struct ls_cuda_more more)
{
    __shared__ struct drawn here;
    __shared__ struct ls_cuda_drawn by_host;
    __shared__ int64_t place_of;
    const struct ls_cuda_augment &a = more.a;
    const int i = blockIdx.x, hw = a.h * a.w;
    float *out = a.dst + (int64_t)i * a.c * hw;
    if (threadIdx.x == 0) {
        tell_labels(more, i);
        const uint32_t sample = i < a.n ? a.samples[i] : 0;
        place_of = a.is_kept ? sample : i;
        here = draw(a, sample);
        if (i < a.n) by_host = more.drawn[i];
    }
    __syncthreads();
    if (i >= a.n) {
        for (int j = threadIdx.x; j < a.c * hw; j += THREADS) out[j] = 0.0f;
        return;
    }
    const struct image m = {a, by_host, here.at, here.cut, a.pixels + place_of * a.c * hw, out, hw};
    place(m);
    colour(m);
    finish(m, more);
}

static __device__ __forceinline__ bool is_in(const struct ls_cuda_box &b, int y, int x)
{
    return y >= b.y0 && y < b.y1 && x >= b.x0 && x < b.x1;
}

/* A pair, both at once. */
static __global__ void mix(struct ls_cuda_more more)
{
    __shared__ struct ls_cuda_drawn pair[2]; /* it may come from the host's memory: once */
    const struct ls_cuda_augment &a = more.a;
    const int hw = a.h * a.w, image = a.c * hw, i = 2 * (int)blockIdx.x;
    const struct ls_cuda_drawn &first = pair[0], &second = pair[1];
    if (threadIdx.x < 2) pair[threadIdx.x] = more.drawn[i + threadIdx.x];
    __syncthreads();
    float *p = a.dst + (int64_t)i * image, *q = p + image;
    const float rest_p = 1.0f - first.share, rest_q = 1.0f - second.share;
    for (int j = threadIdx.x; j < image; j += THREADS) {
        const float x = p[j], y = q[j];
        if (first.is_cut) {
            const int row = j % hw / a.w, column = j % a.w;
            p[j] = is_in(first.mixed, row, column) ? y : x;
            q[j] = is_in(second.mixed, row, column) ? x : y;
        } else {
            p[j] = first.share * x + rest_p * y;
            q[j] = second.share * y + rest_q * x;
        }
    }
}

extern "C" cudaError_t ls__cuda_run_more(cudaStream_t stream, struct ls_cuda_more m)
{
    augment_more<<<(unsigned)m.a.mb, THREADS, 0, stream>>>(m);
    if (m.is_mixing && m.a.n > 1) mix<<<(unsigned)(m.a.n / 2), THREADS, 0, stream>>>(m);
    return cudaGetLastError();
}
