/* stream.c: the memory's bandwidth, for roofline: a[i] = b[i] + s * c[i] over 256 MiB, the best of five, by so many
 * threads. In: the number of threads. Out: GB/s on stdout (24 bytes per two elements read and one written; the read
 * that a write brings along is not counted). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N = (256 << 20) / 3 / sizeof(double), TRIES = 6, MAX_THREADS = 256 }; /* the first try only touches the pages */

static double *a, *b, *c;
static int n_threads;

static void *triad(void *arg)
{
    long me = *(int *)arg, from = N / n_threads * me, to = me == n_threads - 1 ? N : from + N / n_threads;
    for (long i = from; i < to; i++) a[i] = b[i] + 3.0 * c[i];
    return NULL;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    pthread_t threads[MAX_THREADS];
    int numbers[MAX_THREADS];
    double best = 1e9;
    n_threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;
    if (n_threads < 1 || n_threads > MAX_THREADS) return fprintf(stderr, "stream: 1 to %d threads\n", MAX_THREADS), 2;
    a = malloc(N * sizeof *a);
    b = malloc(N * sizeof *b);
    c = malloc(N * sizeof *c);
    if (!a || !b || !c) return fprintf(stderr, "stream: out of memory\n"), 1;
    for (long i = 0; i < N; i++) b[i] = 1, c[i] = 2;
    for (int i = 0; i < n_threads; i++) numbers[i] = i;
    for (int k = 0; k < TRIES; k++) {
        double start = seconds();
        for (long i = 1; i < n_threads; i++)
            if (pthread_create(&threads[i], NULL, triad, &numbers[i])) return fprintf(stderr, "stream: no thread\n"), 1;
        triad(&numbers[0]);
        for (long i = 1; i < n_threads; i++) pthread_join(threads[i], NULL);
        double took = seconds() - start;
        if (k > 0 && took < best) best = took;
    }
    printf("%.2f %g\n", 24.0 * N / best * 1e-9, a[N / 2]);
    return 0;
}
