/* SPDX-License-Identifier: BSD-3-Clause */
/* The entry of the plug-in file: the table of the backend's functions. */
#include "backends/mpi/plugin/collectives/collectives.h"
#include "backends/mpi/plugin/failure.h"
#include "backends/mpi/plugin/group.h"
#include "backends/mpi/plugin/library/library.h"
#include "backends/mpi/plugin/library/start.h"
#include "backends/mpi/plugin/messages/postings.h"

static uint32_t capabilities(void *state)
{
    const struct tti_mpi_group *g = state;
    const bool serialized = tti_mpi_library.level >= MPI_THREAD_SERIALIZED;
    return (g->blocking ? 0 : TUTTI_CAP_CHECKS_CALLS) | (serialized ? 0 : TUTTI_CAP_OWN_THREAD) | g->device;
}

static size_t staging_bytes(void *state)
{
    const struct tti_mpi_group *g = state;
    return g->window * sizeof(int64_t);
}

static const tutti_backend_ops ops = {
    .size = sizeof(ops),
    .available = tti_mpi_available,
    .open = tti_mpi_open,
    .close = tti_mpi_close,
    .supports = tti_mpi_supports,
    .run = tti_mpi_run,
    .run_p2p = tti_mpi_run_p2p,
    .probe = tti_mpi_probe,
    .describe = tti_mpi_describe,
    .failure = tti_mpi_failure,
    .capabilities = capabilities,
    .abort = tti_mpi_abort,
    .post_p2p = tti_mpi_post_p2p,
    .test_p2p = tti_mpi_test_p2p,
    .attend_p2p = tti_mpi_attend_p2p,
    .wake_p2p = tti_mpi_wake_p2p,
    .cancel_p2p = tti_mpi_cancel_p2p,
    .end_p2p = tti_mpi_end_p2p,
    .native = tti_mpi_native,
    .staging_bytes = staging_bytes,
};

static const tutti_backend backend = {
    .abi = TUTTI_BACKEND_ABI,
    .size = sizeof(backend),
    .name = "mpi",
    .priority = 50,
    .ops = &ops,
};

TUTTI_API const tutti_backend *tutti_backend_entry(void);

const tutti_backend *tutti_backend_entry(void)
{
    return &backend;
}
