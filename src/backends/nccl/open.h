/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and describing a group. */
#ifndef TTI_BACKENDS_NCCL_OPEN_H
#define TTI_BACKENDS_NCCL_OPEN_H

#include <tutti/backend.h>

/* As the functions of tutti_backend_ops, for the backend of that name ("nccl" or "rccl"). */
tutti_status tti_nccl_open(const char *backend, const tutti_open_info *info, void **state, tutti_error *error);
size_t tti_nccl_describe(void *state, char *text, size_t capacity);

#endif
