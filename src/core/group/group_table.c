/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of groups lies in a file of its own: every file that acquires a group depends on it, group.c included. */
#include "core/group/group_table.h"

struct tti_handle_table tti_groups = {.kind = TTI_KIND_GROUP, .name = "groups"};
