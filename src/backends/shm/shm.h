/* SPDX-License-Identifier: BSD-3-Clause */
/* shm: the ranks are processes of one host. The shared-memory engine over sealed memory files. */
#ifndef TTI_BACKENDS_SHM_SHM_H
#define TTI_BACKENDS_SHM_SHM_H

#include <tutti/backend.h>

extern const tutti_backend tti_backend_shm;

#endif
