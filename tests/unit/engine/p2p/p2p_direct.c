/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=60 */
/*
 * A message that is received without a request, of which the later chunks are late: then the receive is posted, and the
 * message goes on into the same tensor. Other messages may come meanwhile. Here the test plays rank 1, which sends to
 * rank 0.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/p2p/match.h"
#include "engine/p2p/requests.h"
#include "engine/p2p/rings/recv.h"
#include "unit/engine/p2p/p2p_support.h"

#define CHUNK  16384u
#define CHUNKS 4u
#define COUNT  (CHUNKS * CHUNK / sizeof(int32_t))
#define TAG    7

static int32_t value(size_t k)
{
    return (int32_t)(k * 7919u + 1);
}

/* Chunk i of a message of `count` chunks of so many bytes, which begins with the record `first`. */
static void write_part(struct cluster *c, uint64_t first, unsigned i, uint32_t bytes, unsigned count)
{
    int32_t *to = (int32_t *)(tti_ring(c->engines[1], 1, 0) + i * bytes);
    for (size_t k = 0; k < bytes / sizeof(*to); k++) {
        to[k] = value(i * (bytes / sizeof(*to)) + k);
    }
    write_record(c, first + i,
                 (struct tti_record){.bytes = (uint64_t)count * bytes,
                                     .place = i * bytes,
                                     .here = bytes,
                                     .tag = TAG,
                                     .dtype = TUTTI_I32,
                                     .ndim = 1,
                                     .kind = i == 0 ? TTI_RECORD_FIRST : TTI_RECORD_NEXT});
}

static void write_chunk(struct cluster *c, uint64_t first, unsigned i)
{
    write_part(c, first, i, CHUNK, CHUNKS);
}

static tutti_status receive(struct cluster *c, int32_t *data, tutti_message *message, int64_t timeout_ms,
                            tutti_error *e)
{
    tutti_op op = recv_op(data, COUNT, 1, TAG);
    op.message = message;
    tutti_op *ops[] = {&op};
    return tti_engine_run_p2p(c->engines[0], ops, 1, timeout_ms, e);
}

/* A message of one element. */
static void write_small(struct cluster *c, uint64_t number, int tag)
{
    write_record(c, number,
                 (struct tti_record){.bytes = 4,
                                     .place = TTI_IN_SLOT,
                                     .here = 4,
                                     .tag = tag,
                                     .dtype = TUTTI_I32,
                                     .ndim = 1,
                                     .kind = TTI_RECORD_FIRST});
}

/* Rank 0 has received a small message, so that it knows the rings. */
static void open_with_a_message(struct cluster *c)
{
    int32_t data;
    tutti_error e;
    tutti_op op = recv_op(&data, 1, 1, TAG);
    tutti_op *ops[] = {&op};
    assert_int_equal(cluster_open(c, 2, 1, 16384, (struct waiting){0, 0, 0}), 0);
    write_small(c, 1, TAG);
    assert_int_equal(tti_engine_run_p2p(c->engines[0], ops, 1, 1000, &e), TUTTI_OK);
}

/* Then a large one begins, as record 2. */
static void open_with_a_beginning(struct cluster *c)
{
    open_with_a_message(c);
    write_chunk(c, 2, 0);
}

/* Waits until the receive has been posted. */
static void *write_rest(void *cluster)
{
    struct cluster *c = cluster;
    struct tti_p2p *p2p = c->engines[0]->p2p;
    for (bool posted = false; !posted;) {
        pthread_mutex_lock(&p2p->lock);
        posted = p2p->peers[1].arriving && p2p->peers[1].arriving->request;
        pthread_mutex_unlock(&p2p->lock);
    }
    for (unsigned i = 1; i < CHUNKS; i++) {
        write_chunk(c, 2, i);
    }
    return NULL;
}

static void the_rest_comes_late(void **state)
{
    (void)state;
    static int32_t data[COUNT];
    struct cluster c;
    tutti_error e;
    tutti_message message = TUTTI_MESSAGE_INIT;
    pthread_t writer;
    open_with_a_beginning(&c);
    assert_int_equal(pthread_create(&writer, NULL, write_rest, &c), 0);
    assert_int_equal(receive(&c, data, &message, LONG_MS, &e), TUTTI_OK);
    pthread_join(writer, NULL);
    for (size_t k = 0; k < COUNT; k++) {
        assert_int_equal(data[k], value(k));
    }
    assert_int_equal(message.count, COUNT);
    assert_int_equal(message.source, 1);
    assert_int_equal(message.tag, TAG);
    assert_null(c.engines[0]->p2p->peers[1].messages);
    cluster_close(&c);
}

static void the_rest_never_comes(void **state)
{
    (void)state;
    static int32_t data[COUNT];
    struct cluster c;
    tutti_error e;
    open_with_a_beginning(&c);
    assert_int_equal(receive(&c, data, NULL, 20, &e), TUTTI_TIMEOUT);
    assert_non_null(strstr(e.message, "rank 1"));
    cluster_close(&c);
}

struct busy {
    struct cluster *c;
    _Atomic bool over;
};

/* Small messages with another tag. The next one is sent a moment after the last one was read, so that rank 0 mostly
 * spins for it, and its spin always succeeds. Nothing shows from outside that it spins. So the pause cannot wait for
 * that; without it the test would also pass, but see less. */
static void *send_others(void *user)
{
    struct busy *busy = user;
    struct tti_p2p *p2p = busy->c->engines[0]->p2p;
    for (uint64_t number = 2; !busy->over; number++) {
        write_small(busy->c, number, TAG + 1);
        for (bool read = false; !read && !busy->over;) {
            usleep(100);
            pthread_mutex_lock(&p2p->lock);
            read = p2p->peers[1].read >= number;
            pthread_mutex_unlock(&p2p->lock);
        }
    }
    return NULL;
}

static void the_deadline_holds_beside_a_busy_peer(void **state)
{
    (void)state;
    static int32_t data[COUNT];
    struct cluster c;
    struct busy busy = {.c = &c};
    tutti_error e;
    pthread_t sender;
    open_with_a_message(&c);
    c.engines[0]->spin_polls = UINT32_MAX / 2;
    c.engines[0]->ranks_per_cpu = 1;
    assert_int_equal(pthread_create(&sender, NULL, send_others, &busy), 0);
    assert_int_equal(receive(&c, data, NULL, 20, &e), TUTTI_TIMEOUT);
    busy.over = true;
    pthread_join(sender, NULL);
    cluster_close(&c);
}

static void the_rest_is_checked(void **state)
{
    (void)state;
    static int32_t data[COUNT];
    static const struct tti_record wrong[] = {
        {.here = CHUNK, .place = CHUNK, .kind = TTI_RECORD_FIRST},
        {.here = CHUNK, .place = UINT32_MAX / 2, .kind = TTI_RECORD_NEXT},
        {.here = CHUNKS * CHUNK, .place = 0, .kind = TTI_RECORD_NEXT},
        {.here = 0, .place = CHUNK, .kind = TTI_RECORD_NEXT},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct cluster c;
        tutti_error e;
        open_with_a_beginning(&c);
        write_record(&c, 3, wrong[i]);
        assert_int_equal(receive(&c, data, NULL, 1000, &e), TUTTI_PEER_CORRUPT);
        assert_int_equal(e.suspect, 1);
        cluster_close(&c);
    }
}

/* More chunks than an honest peer makes: the receive is posted meanwhile. */
static void small_chunks_are_received(void **state)
{
    (void)state;
    enum { SMALL = 1024, MANY = 20 };
    static int32_t data[COUNT];
    struct cluster c;
    tutti_error e;
    open_with_a_beginning(&c);
    for (unsigned i = 0; i < MANY; i++) {
        write_part(&c, 2, i, SMALL, MANY);
    }
    assert_int_equal(receive(&c, data, NULL, LONG_MS, &e), TUTTI_OK);
    for (size_t k = 0; k < (size_t)MANY * SMALL / sizeof(*data); k++) {
        assert_int_equal(data[k], value(k));
    }
    assert_null(c.engines[0]->p2p->spare); /* the message was kept in it */
    cluster_close(&c);
}

/* The group has failed before the receive was posted: the rest is discarded. */
static void the_rest_is_discarded(void **state)
{
    (void)state;
    static int32_t data[COUNT];
    struct cluster c;
    tutti_error e;
    tutti_op op = recv_op(data, COUNT, 1, TAG);
    open_with_a_beginning(&c);
    struct tti_engine *engine = c.engines[0];
    memset(data, 0, sizeof(data));
    pthread_mutex_lock(&engine->p2p->lock);
    assert_false(tti_p2p_try_recv(engine, &op, TTI_DIRECT));
    int source = -1;
    assert_null(tti_p2p_find(engine, 1, TAG, &source)); /* no other receive gets it */
    tti_p2p_drop_begun(engine, &op);
    for (unsigned i = 1; i < CHUNKS; i++) {
        write_chunk(&c, 2, i);
    }
    tutti_status status = TUTTI_OK;
    tti_p2p_pull(engine, 1, true, &e, &status);
    pthread_mutex_unlock(&engine->p2p->lock);
    assert_int_equal(status, TUTTI_OK);
    assert_null(engine->p2p->peers[1].messages);
    for (size_t k = 0; k < COUNT; k++) {
        assert_int_equal(data[k], k < CHUNK / sizeof(int32_t) ? value(k) : 0);
    }
    cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rest_comes_late),
        cmocka_unit_test(the_rest_never_comes),
        cmocka_unit_test(the_deadline_holds_beside_a_busy_peer),
        cmocka_unit_test(the_rest_is_checked),
        cmocka_unit_test(the_rest_is_discarded),
        cmocka_unit_test(small_chunks_are_received),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
