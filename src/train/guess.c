/* guess.c: softmax in double, and the k largest by insertion (guess.h). */
#include "train/guess.h"

#include <math.h>

static double largest(const float *logits, int n)
{
    double top = logits[0];
    for (int i = 1; i < n; i++) top = logits[i] > top ? logits[i] : top;
    return top;
}

static double sum_of_exp(const float *logits, int n, double top)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += exp(logits[i] - top);
    return sum;
}

void ls__softmax(const float *logits, int n, float *out)
{
    double top = largest(logits, n), sum = sum_of_exp(logits, n, top);
    for (int i = 0; i < n; i++) out[i] = (float)(exp(logits[i] - top) / sum);
}

void ls__guess(const float *logits, int n, int k, struct ls_guess *out)
{
    int n_out = 0;
    for (int label = 0; label < n; label++) { /* out[].probability holds logits for now */
        int at = n_out < k ? n_out : k;
        while (at > 0 && logits[label] > out[at - 1].probability) at--;
        if (at == k) continue;
        if (n_out < k) n_out++;
        for (int i = n_out - 1; i > at; i--) out[i] = out[i - 1];
        out[at] = (struct ls_guess){.label = label, .probability = logits[label]};
    }
    double top = out[0].probability, sum = sum_of_exp(logits, n, top);
    for (int i = 0; i < k; i++) out[i].probability = (float)(exp(out[i].probability - top) / sum);
}
