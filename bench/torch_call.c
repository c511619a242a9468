/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine's own time of what the backend of torch.distributed calls: an all_reduce in place, with the options that
 * the backend gives. scripts/torch/bench_call.py loads it and calls it in turn with process groups.
 */
#include <stdbool.h>
#include <stddef.h>
#include <tutti/tutti.h>

static void count_end(tutti_status status, const tutti_error *error, void *user)
{
    (void)error;
    *(int *)user += status == TUTTI_OK;
}

/* Runs `calls` operations one after the other, or starts each and waits for it. The number of those that ended OK. */
int torch_call_run(tutti_group *group, float *values, int64_t count, int calls, bool async);

int torch_call_run(tutti_group *group, float *values, int64_t count, int calls, bool async)
{
    DLTensor tensor = tutti_tensor_1d(values, &count, TUTTI_F32);
    tutti_error error;
    int ended = 0;
    for (int i = 0; i < calls; i++) {
        if (!async) {
            ended += tutti_all_reduce(group, &tensor, &tensor, TUTTI_SUM,
                                      TUTTI_CALL(.timeout_ms = 60000, .error = &error)) == TUTTI_OK;
            continue;
        }
        tutti_work *work = NULL;
        const tutti_call *call = TUTTI_CALL(.flags = TUTTI_CALLBACK_ANYWHERE, .timeout_ms = 60000, .error = &error,
                                            .callback = count_end, .user = &ended);
        if (tutti_all_reduce_async(group, &tensor, &tensor, TUTTI_SUM, call, &work) == TUTTI_OK) {
            tutti_work_wait(work, TUTTI_FOREVER);
            tutti_work_release(work);
        }
    }
    return ended;
}
