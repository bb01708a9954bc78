// cxx.cpp: every public header in C++, and names that are found when linking. Compiled by cxx.sh.
#include "lockstep/classify.h"
#include "lockstep/control.h"
#include "lockstep/data.h"
#include "lockstep/measure.h"
#include "lockstep/options.h"
#include "lockstep/result.h"
#include "lockstep/status.h"
#include "lockstep/train.h"
#include "lockstep/trainer.h"

#include <cstdio>
#include <cstring>

int main()
{
    ls_train_options train;
    ls_eval_options eval;
    ls_result result;
    ls_train_options_default(&train);
    ls_eval_options_default(&eval);
    if (ls_train(&train, &result) != LS_USAGE) return 1;
    std::printf("%s, batch %lld: %s\n", train.optimizer, static_cast<long long>(eval.batch_size), ls_error_message());
    return 0;
}
