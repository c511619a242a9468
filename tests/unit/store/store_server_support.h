/* SPDX-License-Identifier: BSD-3-Clause */
/* A server of a store for each case, with a client in its own process, and its replies. */
#ifndef TESTS_UNIT_STORE_STORE_SERVER_SUPPORT_H
#define TESTS_UNIT_STORE_STORE_SERVER_SUPPORT_H

#include <errno.h>

#include "store/server/reply.h"
#include "store/server/server.h"
#include "store/server/service.h"
#include "store/wire/protocol.h"
#include "store_support.h"

struct fixture {
    struct tti_store *store;
    char name[64];
    char url[80];
    int64_t dropped;
};

static inline int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    unique_name(f->name, sizeof(f->name));
    snprintf(f->url, sizeof(f->url), "unix:%s", f->name);
    f->store = open_store(f->url, false);
    f->dropped = tti_connection_dropped();
    *state = f;
    return f->store ? 0 : -1;
}

static inline int tear_down(void **state)
{
    struct fixture *f = *state;
    tti_store_release(f->store);
    tti_server_shutdown_all();
    free(f);
    return 0;
}

/* The status of the next reply, or -1 if the server has hung up. */
static inline int next_reply(int fd)
{
    unsigned char header[TTI_FRAME_HEADER];
    struct tti_frame frame;
    ssize_t count = recv(fd, header, sizeof(header), MSG_WAITALL);
    if (count != sizeof(header)) {
        assert_true(count == 0 || (count < 0 && errno == ECONNRESET));
        return -1;
    }
    assert_true(tti_frame_decode(header, &frame));
    assert_int_equal(frame.type, TTI_FRAME_REPLY);
    return frame.status;
}

/* Checks that the server still works, and its count of refused connections. */
static inline void expect_unharmed(const struct fixture *f, int dropped)
{
    assert_int_equal(tti_store_set(f->store, "unharmed", NULL, 0, NULL), TUTTI_OK);
    assert_int_equal(tti_store_remove(f->store, "unharmed", NULL), TUTTI_OK);
    assert_int_equal(tti_connection_dropped() - f->dropped, dropped);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
