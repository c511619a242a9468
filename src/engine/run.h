/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a collective: the functions behind the entries of tutti_backend_ops with the same names. A small call may run in
 * two steps: tti_engine_start begins it, tti_engine_poll asks whether tti_engine_finish would return at once.
 */
#ifndef TTI_ENGINE_RUN_H
#define TTI_ENGINE_RUN_H

#include <tutti/backend.h>

struct tti_engine;

const char *tti_engine_supports(const struct tti_engine *engine, const tutti_op *op);
tutti_status tti_engine_run(struct tti_engine *engine, tutti_op *op, tutti_error *error);
int32_t tti_engine_start(struct tti_engine *engine, tutti_op *op);
int32_t tti_engine_poll(struct tti_engine *engine, const tutti_op *op);
tutti_status tti_engine_finish(struct tti_engine *engine, tutti_op *op, tutti_error *error);

#endif
