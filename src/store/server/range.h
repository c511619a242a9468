/* SPDX-License-Identifier: BSD-3-Clause */
/* Gets of several keys at once: see tti_store_get_range. */
#ifndef TTI_STORE_SERVER_RANGE_H
#define TTI_STORE_SERVER_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <tutti/status.h>

#include "store/server/types.h"

bool tti_is_range(const struct tti_connection *c);

/* Whether the range can be answered without more waiting: all keys are there, or one will never be set. */
bool tti_range_is_complete(struct tti_service *service, struct tti_connection *c);

/* Replies with the entries found; with none, `otherwise`, or why the first key will never be set. */
void tti_range_reply(struct tti_service *service, struct tti_connection *c, tutti_status otherwise);

/* A key has been set, or never will be: replies if the range waited for it, and waits for no other. */
void tti_range_answer(struct tti_service *service, struct tti_connection *c, const char *key, size_t key_length);

#endif
