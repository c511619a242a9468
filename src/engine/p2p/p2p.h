/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a rank's messages. messages.h has the functions that post them. */
#ifndef TTI_ENGINE_P2P_P2P_H
#define TTI_ENGINE_P2P_P2P_H

#include <tutti/backend.h>

struct tti_engine;

tutti_status tti_p2p_create(struct tti_engine *e, tutti_error *error);
void tti_p2p_destroy(struct tti_engine *e);

#endif
