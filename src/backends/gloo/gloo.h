/* SPDX-License-Identifier: BSD-3-Clause */
/* gloo: between hosts over TCP, through a plug-in file that contains Gloo. */
#ifndef TTI_BACKENDS_GLOO_GLOO_H
#define TTI_BACKENDS_GLOO_GLOO_H

#include <tutti/backend.h>

extern const tutti_backend tti_backend_gloo;

#endif
