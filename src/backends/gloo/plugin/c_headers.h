/* SPDX-License-Identifier: BSD-3-Clause */
/* Tutti's internal headers in C. */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_C_HEADERS_H
#define TTI_BACKENDS_GLOO_PLUGIN_C_HEADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <tutti/backend.h>

/* In C a struct and a function may have the same name. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"

extern "C" {
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/host/boot_id.h"
#include "engine/descriptor.h"
#include "engine/p2p/message_rules.h"
#include "kernels/kernels.h"
#include "tensor/dtype.h"
#include "tensor/parts.h"
#include "tensor/solo.h"
}

#pragma GCC diagnostic pop

#endif
