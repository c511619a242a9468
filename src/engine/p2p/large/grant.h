/* SPDX-License-Identifier: BSD-3-Clause */
/* Which message of a peer is transferred next. The caller holds the lock. */
#ifndef TTI_ENGINE_P2P_LARGE_GRANT_H
#define TTI_ENGINE_P2P_LARGE_GRANT_H

#include "engine/p2p/types.h"

/* Grants the peer's first matched message that needs a grant, and chooses the next offer to copy; each if none is under
 * way. */
void tti_p2p_grant(struct tti_engine *e, int peer);

#endif
