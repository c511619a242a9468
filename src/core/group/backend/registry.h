/* SPDX-License-Identifier: BSD-3-Clause */
/* The backends of this process: built in, registered, loaded. */
#ifndef TTI_CORE_GROUP_BACKEND_REGISTRY_H
#define TTI_CORE_GROUP_BACKEND_REGISTRY_H

#include <tutti/backend.h>

/* The name of the backend for tensors on such a device ("cpu", "cuda", "rocm") in "shm", "cpu:shm,cuda:nccl" or "auto";
 * checks the others too. */
tutti_status tti_registry_choice(const char *text, const char *device, char *name, size_t capacity, tutti_error *error);

/* tutti_backend_find, or NOT_FOUND with a list of the known ones. */
tutti_status tti_registry_find(const char *name, const tutti_backend **backend, tutti_error *error);

/* UNSUPPORTED if the backend cannot join so many ranks. The limits of other backends than shm and local are not known
 * here. */
tutti_status tti_registry_check_ranks(const tutti_backend *backend, int32_t ranks, tutti_error *error);

/* Whether it can be used here: OK; NOT_AVAILABLE with the reason; or a resource error: this process could not find
 * out. */
tutti_status tti_registry_probe(const tutti_backend *backend, char *why, size_t capacity);

/* Calls the backend's init before its first open. */
tutti_status tti_registry_start(const tutti_backend *backend, tutti_error *error);

/* Calls fini of every backend that was started. */
void tti_registry_stop(void);

#endif
