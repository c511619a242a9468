/* SPDX-License-Identifier: BSD-3-Clause */
/* A backend that tests change: `local` behind a table of its own, without asynchronous functions, as MPI and NCCL. */
#ifndef TESTS_API_ASYNC_SYNCHRONOUS_LOCAL_H
#define TESTS_API_ASYNC_SYNCHRONOUS_LOCAL_H

#include <tutti/backend.h>

/* Fills *backend, which is not registered yet, and its table *ops; `run` replaces the engine's own. Returns the
 * engine's table. Both structs live as long as the process. */
static inline const tutti_backend_ops *synchronous_local(const char *name,
                                                         tutti_status (*run)(void *, tutti_op *, tutti_error *),
                                                         tutti_backend *backend, tutti_backend_ops *ops)
{
    const tutti_backend *local = tutti_backend_find("local");
    *ops = *local->ops;
    ops->run = run;
    ops->start = NULL;
    ops->poll = NULL;
    ops->finish = NULL;
    *backend = *local;
    backend->name = name;
    backend->priority = -1;
    backend->capabilities = TUTTI_CAP_ONE_PROCESS;
    backend->ops = ops;
    return local->ops;
}

#endif
