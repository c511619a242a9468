/* SPDX-License-Identifier: BSD-3-Clause */
/* An all_reduce of f32 whose values are sent in fewer bytes, on any engine: see wire.c. */
#ifndef TTI_CORE_CALL_WIRE_H
#define TTI_CORE_CALL_WIRE_H

#include <stdbool.h>
#include <tutti/backend.h>

struct tti_group;

/* The checks of call.wire that need no tensor: a number of the enum, and all_reduce. */
tutti_status tti_wire_check(tutti_wire wire, tutti_operation operation, tutti_error *error);

/* Those of an all_reduce with call.wire: the dtype, the reduce op, and where the tensors lie. */
tutti_status tti_wire_check_reduction(tutti_wire wire, const struct tti_group *group, tutti_dtype dtype,
                                      tutti_reduce_op redop, tutti_error *error);

/* Whether the engine leaves the conversion to the core. */
bool tti_wire_converts(const tutti_backend *engine, void *state, const tutti_op *op);

/* UNSUPPORTED if the engine has not the operations that the core's conversion needs. */
tutti_status tti_wire_check_engine(const tutti_backend *engine, void *state, const tutti_op *op, tutti_error *error);

/* Makes the memory for a chunk, of the op's lane, unless it is there. It is freed with the group. */
tutti_status tti_wire_reserve(struct tti_group *group, const tutti_op *op, tutti_error *error);

/* Runs the op in packed chunks. The calling thread owns the lane, and has reserved memory unless the op has failed. */
tutti_status tti_wire_run(struct tti_group *group, const tutti_backend *engine, void *state, tutti_op *op,
                          tutti_error *error);

#endif
