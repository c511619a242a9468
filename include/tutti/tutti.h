/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/tutti.h - collective communication for distributed training: includes all public headers except
 * tutti/backend.h.
 *
 *     tutti_group *g;
 *     tutti_error e;
 *     if (tutti_init(NULL, &g, &e) != TUTTI_OK) { puts(e.message); return 1; }
 *     int64_t n = 1000;
 *     DLTensor grad = tutti_tensor_1d(buffer, &n, TUTTI_F32);
 *     tutti_all_reduce(g, &grad, &grad, TUTTI_AVG, NULL);
 *     tutti_group_destroy(g, NULL);
 *
 * Start one process for each CPU of the host: `tutti run ./program`.
 */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <tutti/collectives.h>
#include <tutti/config.h>
#include <tutti/events.h>
#include <tutti/group.h>
#include <tutti/memory.h>
#include <tutti/overlap.h>
#include <tutti/p2p.h>
#include <tutti/persistent.h>
#include <tutti/queue.h>
#include <tutti/recovery.h>
#include <tutti/shape.h>
#include <tutti/status.h>
#include <tutti/tensor.h>
#include <tutti/work.h>

TUTTI_BEGIN_DECLS

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0

/** The version of the loaded library, as major * 10000 + minor * 100 + patch. */
TUTTI_API int32_t tutti_version(void);

/** The same as text ("0.1.0"). Static storage. */
TUTTI_API const char *tutti_version_string(void);

TUTTI_END_DECLS

#endif
