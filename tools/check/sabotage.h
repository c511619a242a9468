/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_CHECK_SABOTAGE_H
#define TOOLS_CHECK_SABOTAGE_H

#include "check/check.h"

enum tti_check_spoil { TTI_CHECK_SPOIL_RESULT, TTI_CHECK_SPOIL_GUARD, TTI_CHECK_SPOIL_INPUT, TTI_CHECK_SPOIL_STATUS };

/* Whether this rank is to spoil this in the running case. */
bool tti_check_sabotaged(const struct tti_check *c, enum tti_check_spoil what);

#endif
