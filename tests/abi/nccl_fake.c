/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A libnccl.so.2 that returns a version, FAKE_VERSION, with the result FAKE_RESULT. Every other function ends the
 * process: the query whether the library is available must not call any of them.
 */
#include <stdlib.h>

#include "backends/nccl/library/api.h"

#define ncclGetVersion unused_version
#define END_PROCESS(name, since, result, arguments)                                                                    \
    result nccl##name arguments;                                                                                       \
    result nccl##name arguments                                                                                        \
    {                                                                                                                  \
        abort();                                                                                                       \
    }
TTI_NCCL_FUNCTIONS(END_PROCESS)
#undef ncclGetVersion

int ncclGetVersion(int *version);
int ncclGetVersion(int *version)
{
    *version = FAKE_VERSION;
    return FAKE_RESULT;
}
