/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams of a device that wait for works. */
#ifndef TTI_CORE_ASYNC_WORK_STREAM_H
#define TTI_CORE_ASYNC_WORK_STREAM_H

#include <tutti/work.h>

struct tti_work;

/* tutti_work_wait_stream. */
tutti_status tti_work_wait_stream(struct tti_work *w, void *stream, tutti_error *error);

#endif
