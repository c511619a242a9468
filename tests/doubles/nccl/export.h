/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files with the exported functions. */
#ifndef TESTS_DOUBLES_NCCL_EXPORT_H
#define TESTS_DOUBLES_NCCL_EXPORT_H

#include "double.h"

#define TTI_NCCL_EXPORT __attribute__((visibility("default")))

#ifdef TTI_DOUBLE_RCCL
#define TTI_DOUBLE_IS_RCCL 1
#else
#define TTI_DOUBLE_IS_RCCL 0
#endif

/* The library has the function, but the version that it imitates does not. */
ncclResult_t tti_too_new(const char *function);
/* The end of a call after tti_comm_enter and tti_group_start; `result` is the result so far. */
ncclResult_t tti_end_call(struct ncclComm *comm, ncclResult_t result);

#endif
