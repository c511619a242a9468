/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GET_RANGE and GET_FDS: the values or descriptors of several keys in one reply. The connection waits until all keys
 * are there, one will never be set, or its deadline has passed; then it gets those that are there from the first one
 * on, as many as a reply holds. Cost: each key is looked up once while the connection waits, and once for the reply.
 */
#include "store/server/range.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/server/reply.h"

bool tti_is_range(const struct tti_connection *c)
{
    return c->request.type == TTI_FRAME_GET_RANGE || c->request.type == TTI_FRAME_GET_FDS;
}

#define RANGE_KEY (TTI_STORE_KEY_MAX + 12)

static size_t range_key(const struct tti_connection *c, uint32_t member, char key[RANGE_KEY])
{
    return (size_t)snprintf(key, RANGE_KEY, "%.*s/%u", (int)c->request.key_length, tti_request_key(c),
                            tti_range_first(c->request.number) + member);
}

static struct tti_table_entry *find_member(const struct tti_service *service, const struct tti_connection *c,
                                           uint32_t member)
{
    char key[RANGE_KEY];
    const size_t length = range_key(c, member, key);
    return tti_table_find(&service->table, key, length);
}

static bool is_member_failed(const struct tti_service *service, const struct tti_connection *c, uint32_t member)
{
    char key[RANGE_KEY];
    const size_t length = range_key(c, member, key);
    return tti_table_key_failure(&service->table, key, length) != TUTTI_OK;
}

/* Whether the range can be answered without more waiting: all keys are there, or one will never be set. */
bool tti_range_is_complete(struct tti_service *service, struct tti_connection *c)
{
    const uint32_t count = tti_range_count(c->request.number);
    while (c->found < count && find_member(service, c, c->found)) {
        c->found++;
    }
    return c->found == count || is_member_failed(service, c, c->found);
}

static void reply_with_values(struct tti_service *service, struct tti_connection *c)
{
    size_t length = 0;
    uint32_t count = 0;
    const struct tti_table_entry *entry = NULL;
    unsigned char *values = malloc(TTI_STORE_VALUE_MAX);
    while (values && count < c->found && (entry = find_member(service, c, count)) && entry->fd < 0 &&
           length + TTI_FRAME_LENGTH + entry->length <= TTI_STORE_VALUE_MAX) {
        tti_range_put_length(values + length, (uint32_t)entry->length);
        if (entry->length) {
            memcpy(values + length + TTI_FRAME_LENGTH, entry->value, entry->length);
        }
        length += TTI_FRAME_LENGTH + entry->length;
        count++;
    }
    const tutti_status none = !values ? TUTTI_NO_MEMORY : entry ? TUTTI_PROTOCOL : TUTTI_TIMEOUT;
    tti_reply_number(service, c, count > 0 ? TUTTI_OK : none, count, values, length);
    free(values);
}

static ssize_t send_fds(const struct tti_connection *c, const int *fds, uint32_t count)
{
    const struct tti_frame frame = {.type = TTI_FRAME_REPLY, .status = TUTTI_OK, .number = count};
    unsigned char bytes[TTI_FRAME_HEADER];
    tti_frame_encode(&frame, bytes);
    return tti_wire_send_fds(c->fd, bytes, sizeof(bytes), fds, count);
}

/* The kernel refuses to send when too many descriptors of a user are under way. So a client gets several at once only
 * as long as few are, and else one, as from GET_FD. */
static void reply_with_fds(struct tti_service *service, struct tti_connection *c)
{
    struct tti_table_entry *entries[TTI_FRAME_FDS] = {NULL};
    int fds[TTI_FRAME_FDS];
    const uint32_t room = service->most_handed > service->handed ? service->most_handed - service->handed : 1;
    const uint32_t most = room < TTI_FRAME_FDS ? room : TTI_FRAME_FDS;
    uint32_t count = 0;
    while (count < c->found && count < most && (entries[count] = find_member(service, c, count)) &&
           entries[count]->fd >= 0) {
        fds[count] = entries[count]->fd;
        count++;
    }
    if (count == 0) {
        tti_reply(service, c, entries[0] ? TUTTI_PROTOCOL : TUTTI_TIMEOUT, NULL, 0);
        return;
    }
    ssize_t sent = send_fds(c, fds, count);
    if (sent < 0 && errno == ETOOMANYREFS && count > 1) { /* other jobs of this user have many under way */
        count = 1;
        sent = send_fds(c, fds, count);
    }
    if (sent == TTI_FRAME_HEADER) {
        for (uint32_t i = 0; i < count; i++) {
            tti_table_served(&service->table, entries[i]);
        }
        c->handed = count;
        service->handed += count;
        tti_reply_done(c);
    } else {
        tti_reply_no_fd(service, c, sent);
    }
}

/* Replies with the entries found; with none, `otherwise`, or why the first key will never be set. */
void tti_range_reply(struct tti_service *service, struct tti_connection *c, tutti_status otherwise)
{
    char key[RANGE_KEY];
    if (c->found == 0) {
        const size_t length = range_key(c, 0, key);
        const tutti_status failure = tti_table_key_failure(&service->table, key, length);
        tti_reply(service, c, failure != TUTTI_OK ? failure : otherwise, NULL, 0);
    } else if (c->request.type == TTI_FRAME_GET_FDS) {
        reply_with_fds(service, c);
    } else {
        reply_with_values(service, c);
    }
}

/* A key has been set, or never will be. */
void tti_range_answer(struct tti_service *service, struct tti_connection *c, const char *key, size_t key_length)
{
    char awaited[RANGE_KEY];
    const size_t stem = c->request.key_length;
    if (key_length > stem && memcmp(tti_request_key(c), key, stem) == 0 &&
        range_key(c, c->found, awaited) == key_length && memcmp(awaited, key, key_length) == 0 &&
        tti_range_is_complete(service, c)) {
        tti_range_reply(service, c, TUTTI_TIMEOUT);
    }
}
