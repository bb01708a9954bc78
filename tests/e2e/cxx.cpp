// cxx.cpp: every public header in C++, and names that are found when linking. Compiled by cxx.sh.
#include "lockstep/backend.h"
#include "lockstep/checkpoint.h"
#include "lockstep/comm.h"
#include "lockstep/data.h"
#include "lockstep/exec.h"
#include "lockstep/graph.h"
#include "lockstep/model.h"
#include "lockstep/optim.h"
#include "lockstep/plan.h"
#include "lockstep/predict.h"
#include "lockstep/status.h"
#include "lockstep/tensor.h"
#include "lockstep/train.h"

#include <cstdio>
#include <cstring>

int main()
{
    ls_train_options train;
    ls_eval_options eval;
    ls_model *model;
    ls_dataset *data;
    ls_comm *comm;
    ls_train_options_default(&train);
    ls_eval_options_default(&eval);
    if (ls_model_load(&model, "lenet5") != LS_OK || ls_data_open(&data, "fake:1x28x28:10:20", LS_TRAIN, nullptr) != LS_OK ||
        ls_comm_open(&comm, nullptr) != LS_OK) {
        std::printf("failed: %s\n", ls_error_message());
        return 1;
    }
    std::printf("%s on %s: %s, batch %lld, %d rank, %s\n", ls_model_name(model), data->name, train.optimizer,
                static_cast<long long>(eval.batch_size), ls_comm_place(comm)->n_ranks,
                ls_backend_find(nullptr) ? "computes" : "cannot compute");
    ls_comm_close(&comm);
    ls_dataset_close(&data);
    ls_model_destroy(&model);
    return 0;
}
