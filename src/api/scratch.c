/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/scratch.h"

#include <stdlib.h>

#include "base/error.h"
#include "tensor/strided.h"

tutti_status tti_scratch_open(const struct tti_checker *k, struct tti_view *view, bool fill)
{
    view->memory = view->data;
    if (view->compact || view->bytes == 0) {
        return TUTTI_OK;
    }
    void *scratch = malloc(view->bytes);
    if (!scratch) {
        view->memory = NULL;
        return tti_error_set(k->c->error, TUTTI_NO_MEMORY,
                             "%s: no memory to pack the strided tensor %s (%zu bytes); a compact one needs none",
                             k->function, view->name, view->bytes);
    }
    if (fill) {
        tti_tensor_pack(scratch, view->tensor);
    }
    view->memory = scratch;
    return TUTTI_OK;
}

void tti_scratch_close(struct tti_view *view, bool store)
{
    if (view->compact || view->bytes == 0 || !view->memory) {
        return;
    }
    if (store) {
        tti_tensor_unpack(view->tensor, view->memory);
    }
    free(view->memory);
    view->memory = NULL;
}
