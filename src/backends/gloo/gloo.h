/* SPDX-License-Identifier: BSD-3-Clause */
/* Backend gloo: between hosts over TCP, by a plug-in file that brings Gloo. */
#ifndef TTI_BACKENDS_GLOO_H
#define TTI_BACKENDS_GLOO_H

#include <tutti/backend.h>

extern const tutti_backend tti_backend_gloo;

#endif
