/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that need few arguments, from start to end. */
#include "check/operation/shortcuts.h"

#include "check/data/device_memory.h"
#include "check/operation/completion.h"

tutti_status tti_check_barrier(struct tti_check *c)
{
    return tti_check_do(c, &(struct tti_check_operation){.kind = TTI_CHECK_BARRIER});
}

tutti_status tti_check_send(struct tti_check *c, const DLTensor *tensor, int peer, int tag)
{
    return tti_check_do(
        c, &(struct tti_check_operation){.kind = TTI_CHECK_SEND, .input = tensor, .destination = peer, .tag = tag});
}

tutti_status tti_check_recv(struct tti_check *c, DLTensor *tensor, int peer, int tag, tutti_message *came)
{
    return tti_check_do(c, &(struct tti_check_operation){
                               .kind = TTI_CHECK_RECV, .output = tensor, .source = peer, .tag = tag, .message = came});
}

tutti_status tti_check_sendrecv(struct tti_check *c, const DLTensor *out, int destination, DLTensor *in, int source,
                                int tag, tutti_message *came)
{
    return tti_check_do(c, &(struct tti_check_operation){.kind = TTI_CHECK_SENDRECV,
                                                         .input = out,
                                                         .destination = destination,
                                                         .output = in,
                                                         .source = source,
                                                         .tag = tag,
                                                         .message = came});
}

tutti_status tti_check_sendrecv_values(struct tti_check *c, int64_t *sent, int destination, int64_t *received,
                                       int source, int tag)
{
    struct tti_check_values out;
    struct tti_check_values in;
    tti_check_values_begin(c, &out, sent, 1);
    tti_check_values_begin(c, &in, received, 1);
    const tutti_status status = tti_check_sendrecv(c, &out.t, destination, &in.t, source, tag, NULL);
    tti_check_values_end(&out);
    tti_check_values_end(&in);
    return status;
}
