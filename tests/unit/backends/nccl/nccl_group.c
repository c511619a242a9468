/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups of the backends nccl and rccl over the doubles: supported operations, refusal of ranks that differ, lanes,
 * tensors that are not ready yet, and the heap. nccl_collectives.c tests results, nccl_failure.c failures.
 *
 * tutti-test: timeout=180
 */
#include "nccl_support.h"

/* ---- supported operations ---------------------------------------------------------------------------------------- */

struct claim {
    tutti_operation kind;
    tutti_dtype dtype;
    tutti_reduce_op redop;
    int since; /* the first version that supports it; 0: none does */
};

static const struct claim claims[] = {
    {TUTTI_OP_ALL_REDUCE, TUTTI_F32, TUTTI_SUM, 20700},
    {TUTTI_OP_REDUCE, TUTTI_F16, TUTTI_PRODUCT, 20700},
    {TUTTI_OP_REDUCE_SCATTER, TUTTI_I8, TUTTI_MIN, 20700},
    {TUTTI_OP_ALL_REDUCE, TUTTI_U64, TUTTI_MAX, 20700},
    {TUTTI_OP_ALL_REDUCE, TUTTI_F64, TUTTI_AVG, 21000},
    {TUTTI_OP_ALL_REDUCE, TUTTI_BF16, TUTTI_SUM, 21000},
    {TUTTI_OP_ALL_REDUCE, TUTTI_F32, TUTTI_PREMUL_SUM, 21100},
    {TUTTI_OP_ALL_REDUCE, TUTTI_I32, TUTTI_PREMUL_SUM, 21100},
    {TUTTI_OP_BROADCAST, TUTTI_I16, 0, 20700},
    {TUTTI_OP_ALL_GATHER, TUTTI_F8_E4M3, 0, 20700},
    {TUTTI_OP_ALL_TO_ALL, TUTTI_BOOL, 0, 20700},
    {TUTTI_OP_GATHER, TUTTI_BF16, 0, 20700},
    {TUTTI_OP_SCATTER, TUTTI_U16, 0, 20700},
    {TUTTI_OP_BARRIER, 0, 0, 20700},
    /* operations with other results in the library, or without a function */
    {TUTTI_OP_ALL_REDUCE, TUTTI_F32, TUTTI_MIN, 0},
    {TUTTI_OP_REDUCE, TUTTI_BF16, TUTTI_MAX, 0},
    {TUTTI_OP_REDUCE_SCATTER, TUTTI_F64, TUTTI_MAX, 0},
    {TUTTI_OP_ALL_REDUCE, TUTTI_F8_E4M3, TUTTI_MAX, 0},
    {TUTTI_OP_ALL_REDUCE, TUTTI_I64, TUTTI_AVG, 0},
    {TUTTI_OP_ALL_REDUCE, TUTTI_F16, TUTTI_PREMUL_SUM, 0},
    {TUTTI_OP_ALL_REDUCE, TUTTI_F8_E5M2, TUTTI_SUM, 0},
    {TUTTI_OP_ALL_REDUCE, TUTTI_BOOL, TUTTI_LOR, 0},
    {TUTTI_OP_ALL_REDUCE, TUTTI_BOOL, TUTTI_SUM, 0},
    {TUTTI_OP_ALL_REDUCE, TUTTI_I32, TUTTI_BAND, 0},
    {TUTTI_OP_REDUCE_SCATTER, TUTTI_U16, TUTTI_SUM, 0},
    {TUTTI_OP_SEND, TUTTI_F32, 0, 0},
};

/* With the setting native_min_max, instead of the rows above. */
static const struct claim asked_for[] = {
    {TUTTI_OP_ALL_REDUCE, TUTTI_F32, TUTTI_MIN, 20700},
    {TUTTI_OP_REDUCE, TUTTI_BF16, TUTTI_MAX, 21000},
    {TUTTI_OP_REDUCE_SCATTER, TUTTI_F64, TUTTI_MAX, 20700},
};

static int since_of(const struct rank *r, const struct claim *claim)
{
    for (size_t i = 0; i < sizeof(asked_for) / sizeof(asked_for[0]) && r->native_min_max; i++) {
        const struct claim *a = &asked_for[i];
        if (a->kind == claim->kind && a->dtype == claim->dtype && a->redop == claim->redop) {
            return a->since;
        }
    }
    return claim->since;
}

static void check_claims_as_set(struct rank *r)
{
    const tutti_backend_ops *ops = r->backend->ops;
    const int version = *(const int *)r->scenario;
    const uint32_t device = r->backend == &tti_backend_nccl ? TUTTI_CAP_CUDA : TUTTI_CAP_ROCM;
    const uint32_t heap = version >= 21900 ? TUTTI_CAP_HEAP : 0;
    tutti_error error;
    char text[1024];
    tti_error_clear(&error);
    CHECK(ops->available(text, sizeof(text)) == 1);
    CHECK_OK(rank_open(r, &error));
    CHECK(ops->capabilities(r->state) ==
          (device | TUTTI_CAP_NO_HOST | heap | (r->native_min_max ? TUTTI_CAP_DROPS_NAN : 0)));
    for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
        tutti_op op = op_of(claims[i].kind, claims[i].dtype, claims[i].redop);
        const int since = since_of(r, &claims[i]);
        const bool can = since != 0 && version >= since;
        if ((ops->supports(r->state, &op) != NULL) != can) {
            fprintf(stderr, "claim %zu, version %d\n", i, version);
            CHECK(false);
        }
        op.on_device = 0;
        CHECK(claims[i].kind == TUTTI_OP_BARRIER || ops->supports(r->state, &op) == NULL);
    }
    CHECK(ops->algorithm(r->state, 0) == NULL);
    CHECK(ops->native(r->state) != NULL);
    CHECK(ops->failure(r->state, &error) == TUTTI_OK);
    CHECK(ops->describe(r->state, text, sizeof(text)) < sizeof(text));
    CHECK(strstr(text, r->backend->name) != NULL && strstr(text, ":0") != NULL);
    CHECK((strstr(text, "no deadline") != NULL) == (version < 21400));
    CHECK(ops->describe(r->state, NULL, 0) == strlen(text));
    rank_close(r);
}

static void check_claims(struct rank *r)
{
    check_claims_as_set(r);
}

static void check_claims_natively(struct rank *r)
{
    r->native_min_max = true;
    check_claims_as_set(r);
}

static void claims_by_version(void **cmocka_state)
{
    static const struct {
        const tutti_backend *backend;
        const char *library;
        const char *words;
        int version;
    } all[] = {
        {&tti_backend_nccl, "nccl_old", NULL, 20708},    {&tti_backend_nccl, "nccl_old", "version=21003", 21003},
        {&tti_backend_nccl, "nccl_middle", NULL, 21805}, {&tti_backend_nccl, "nccl_new", NULL, 22809},
        {&tti_backend_rccl, "rccl_old", NULL, 22105},    {&tti_backend_rccl, "rccl_new", NULL, 22803},
    };
    (void)cmocka_state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct job job = {.backend = all[i].backend,
                          .size = 1,
                          .library = all[i].library,
                          .words = all[i].words,
                          .scenario = &all[i].version,
                          .run = check_claims};
        run_job(&job);
        job.run = check_claims_natively;
        run_job(&job);
    }
}

static void tables(void **cmocka_state)
{
    (void)cmocka_state;
    assert_string_equal(tti_backend_nccl.name, "nccl");
    assert_string_equal(tti_backend_rccl.name, "rccl");
    assert_int_equal(tti_backend_nccl.priority, 100);
    assert_int_equal(tti_backend_rccl.priority, 90);
    assert_int_equal(tti_backend_nccl.capabilities, TUTTI_CAP_CUDA | TUTTI_CAP_NO_HOST);
    assert_int_equal(tti_backend_rccl.capabilities, TUTTI_CAP_ROCM | TUTTI_CAP_NO_HOST);
    assert_null(tti_backend_nccl.ops->run_p2p);
    assert_null(tti_backend_nccl.ops->post_p2p);
}

/* ---- ranks that differ ------------------------------------------------------------------------------------------- */

static void expect_refusal(struct rank *r, tutti_status status, const char *a, const char *b)
{
    tutti_error error;
    tti_error_clear(&error);
    const tutti_status got = rank_open(r, &error);
    if (got != status || !strstr(error.message, a) || !strstr(error.message, b)) {
        fprintf(stderr, "%s: %s\n", tutti_status_name(got), error.message);
        CHECK(false);
    }
    CHECK(r->state == NULL);
}

static void versions_differ(struct rank *r)
{
    expect_refusal(r, TUTTI_VERSION, "rank 0 has nccl 2.28.9", "rank 2 has nccl 2.27.3");
}

static void variables_differ(struct rank *r)
{
    setenv("NCCL_ALGO", r->rank == 1 ? "Tree" : "Ring", 1);
    expect_refusal(r, TUTTI_MISMATCH, "rank 1 has NCCL_ALGO=\"Tree\"", "rank 0 \"Ring\"");
}

/* Else some ranks would wait in the library, and others on the engine for host memory. */
static void min_max_differ(struct rank *r)
{
    r->native_min_max = r->rank == 2;
    expect_refusal(r, TUTTI_MISMATCH, "rank 2 has nccl.native_min_max=yes", "rank 0 no");
}

static void device_twice(struct rank *r)
{
    r->device = r->rank == 1 ? 1 : 2; /* ranks 0 and 2 */
    expect_refusal(r, TUTTI_NOT_AVAILABLE, "ranks 0 and 2", "same device");
}

static void no_such_device(struct rank *r)
{
    r->device = r->rank == 2 ? 77 : r->rank;
    expect_refusal(r, TUTTI_NOT_AVAILABLE, "rank 2:", ":77");
}

static void no_ids(struct rank *r)
{
    expect_refusal(r, TUTTI_BACKEND, "rank 0:", "GetUniqueId");
}

static void misfits(void **cmocka_state)
{
    (void)cmocka_state;
    const struct job jobs[] = {
        {.words = "version=22809", .words_of_one = "version=22703", .run = versions_differ},
        {.run = variables_differ},
        {.run = min_max_differ},
        {.run = device_twice},
        {.run = no_such_device},
        {.words = "unique_id_fails", .run = no_ids},
    };
    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
        struct job job = jobs[i];
        job.backend = &tti_backend_nccl;
        job.size = 3;
        run_job(&job);
    }
}

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

enum { LANES = 3, ROUNDS = 40, COUNT = 500 };

struct traveller {
    const struct rank *rank;
    int32_t lane;
};

/* Adds the numbers of all ranks up, again and again, on one lane. */
static void *travel(void *argument)
{
    const struct traveller *t = argument;
    const struct rank *r = t->rank;
    int32_t host[COUNT];
    int32_t *memory = device_alloc(r, sizeof(host));
    int64_t expected = t->lane + 1;
    tutti_error error;
    tti_error_clear(&error);
    for (int i = 0; i < COUNT; i++) {
        host[i] = t->lane + 1;
    }
    device_copy(r, memory, host, sizeof(host));
    for (int round = 0; round < ROUNDS; round++) {
        tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, TUTTI_I32, TUTTI_SUM);
        op.lane = t->lane;
        op.count = COUNT;
        op.src = op.dst = memory;
        op.background = round % 2;
        CHECK_OK(r->backend->ops->run(r->state, &op, &error));
        CHECK(op.sequence == round + 1);
        expected *= r->size;
    }
    device_copy(r, host, memory, sizeof(host));
    CHECK(host[0] == (int32_t)expected && host[COUNT - 1] == (int32_t)expected);
    device_free(r, memory);
    return NULL;
}

static void on_lanes(struct rank *r)
{
    pthread_t threads[LANES];
    struct traveller travellers[LANES];
    tutti_error error;
    tti_error_clear(&error);
    CHECK_OK(rank_open(r, &error));
    for (int32_t i = 0; i < LANES; i++) {
        travellers[i] = (struct traveller){r, i};
        CHECK(pthread_create(&threads[i], NULL, travel, &travellers[i]) == 0);
    }
    for (int32_t i = 0; i < LANES; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    rank_close(r);
}

static void lanes(void **cmocka_state)
{
    (void)cmocka_state;
    const struct job job = {.backend = &tti_backend_nccl, .size = 2, .lanes = LANES, .run = on_lanes};
    run_job(&job);
}

/* ---- a tensor that is not ready yet ------------------------------------------------------------------------------ */

static void behind_an_event(struct rank *r)
{
    const struct tti_device *d = r->driver;
    const size_t bytes = (size_t)1 << 20;
    struct tti_device_scope scope;
    void *stream = NULL;
    void *event = NULL;
    void *word = NULL;
    tutti_error error;
    unsigned char *host = malloc(bytes);
    tti_error_clear(&error);
    CHECK(host != NULL);
    CHECK_OK(rank_open(r, &error));
    unsigned char *memory = device_alloc(r, bytes);
    memset(host, 0, bytes);
    device_copy(r, memory, host, bytes);
    memset(host, r->rank + 1, bytes);
    CHECK_OK(d->enter(r->device, &scope, &error));
    CHECK_OK(d->stream_create(&stream, &error));
    CHECK_OK(d->event_create(&event, &error));
    CHECK_OK(d->alloc_host(bytes, &word, &error));
    memcpy(word, host, bytes);
    for (int i = 0; i < 20; i++) { /* the last value in the queue counts */
        CHECK_OK(d->copy(memory, word, bytes, stream, &error));
    }
    CHECK_OK(d->event_record(event, stream, &error));
    tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, TUTTI_U8, TUTTI_SUM);
    op.count = bytes;
    op.src = op.dst = memory;
    op.after = event;
    CHECK_OK(r->backend->ops->run(r->state, &op, &error));
    device_copy(r, host, memory, bytes);
    CHECK(host[0] == 3 && host[bytes - 1] == 3);
    CHECK_OK(d->free_host(word, &error));
    CHECK_OK(d->event_destroy(event, &error));
    CHECK_OK(d->stream_destroy(stream, &error));
    d->leave(&scope);
    device_free(r, memory);
    rank_close(r);
    free(host);
}

static void after(void **cmocka_state)
{
    (void)cmocka_state;
    const struct job job = {.backend = &tti_backend_nccl, .size = 2, .run = behind_an_event};
    run_job(&job);
}

/* ---- the heap ---------------------------------------------------------------------------------------------------- */

struct gathering {
    const struct rank *rank;
    int32_t times;
};

static tutti_status gather_all(void *self, const void *mine, size_t bytes, void *all, tutti_error *error)
{
    struct gathering *g = self;
    const struct rank *r = g->rank;
    char key[48];
    tutti_status status = TUTTI_OK;
    g->times++;
    snprintf(key, sizeof(key), "exchange/%d/%d", g->times, r->rank);
    status = table_set(r->table, key, mine, bytes, error);
    for (int32_t i = 0; i < r->size && status == TUTTI_OK; i++) {
        size_t length = 0;
        snprintf(key, sizeof(key), "exchange/%d/%d", g->times, i);
        status = table_get(r->table, key, (char *)all + (size_t)i * bytes, bytes, &length, 10000, error);
    }
    return status;
}

static void on_the_heap(struct rank *r)
{
    const tutti_backend_ops *ops = r->backend->ops;
    struct gathering gathering = {.rank = r};
    const tutti_exchange exchange = {
        .size = sizeof(exchange), .self = &gathering, .gather = gather_all, .deadline_ns = INT64_MAX};
    const size_t bytes = r->rank == 1 ? 0 : 8192;
    void *given = NULL;
    void *kept = NULL;
    tutti_error error;
    tti_error_clear(&error);
    CHECK_OK(rank_open(r, &error));
    CHECK_OK(ops->alloc(r->state, bytes, &exchange, &given, &error));
    CHECK((given != NULL) == (bytes > 0));
    CHECK_OK(ops->alloc(r->state, 4096, &exchange, &kept, &error));
    unsigned char *own = device_alloc(r, 4096);
    CHECK_OK(ops->register_memory(r->state, own, 4096, &exchange, &error));
    CHECK_OK(ops->register_memory(r->state, NULL, 0, &exchange, &error));
    /* one rank registers memory twice, another registers host memory: all ranks get the first error */
    void *wrong = r->rank == 0 ? own + 100 : r->rank == 1 ? (void *)&exchange : given;
    const tutti_status refused = ops->register_memory(r->state, wrong, r->rank == 2 ? 0 : 64, &exchange, &error);
    CHECK(refused == TUTTI_INVALID_ARGUMENT && error.suspect == 0);
    /* the memory can be read and written */
    tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, TUTTI_U8, TUTTI_MAX);
    unsigned char host[64];
    memset(host, r->rank, sizeof(host));
    device_copy(r, kept, host, sizeof(host));
    op.src = kept;
    op.dst = own;
    op.count = sizeof(host);
    CHECK_OK(ops->run(r->state, &op, &error));
    device_copy(r, host, own, sizeof(host));
    CHECK(host[0] == r->size - 1);
    CHECK_OK(ops->unregister_memory(r->state, own, &exchange, &error));
    const tutti_status again = ops->unregister_memory(r->state, r->rank == 0 ? own : NULL, &exchange, &error);
    CHECK(again == TUTTI_INVALID_ARGUMENT && error.suspect == 0);
    CHECK_OK(ops->unregister_memory(r->state, NULL, &exchange, &error));
    if (given) {
        CHECK_OK(ops->release(r->state, given, &error));
        CHECK(ops->release(r->state, given, &error) == TUTTI_INVALID_ARGUMENT);
    }
    /* `kept` lives as long as the group that is made from this one */
    struct rank child = *r;
    child.table = r->table + 1;
    child.parent_state = r->state;
    CHECK_OK(rank_open(&child, &error));
    rank_close(r);
    op.src = op.dst = kept;
    CHECK_OK(ops->run(child.state, &op, &error));
    device_copy(r, host, kept, sizeof(host));
    CHECK(host[0] == r->size - 1);
    rank_close(&child);
    device_free(r, own);
}

static void heap(void **cmocka_state)
{
    (void)cmocka_state;
    const struct job job = {.backend = &tti_backend_nccl, .size = 3, .lanes = 2, .run = on_the_heap};
    run_job(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables),  cmocka_unit_test(claims_by_version),
        cmocka_unit_test(misfits), cmocka_unit_test(lanes),
        cmocka_unit_test(after),   cmocka_unit_test(heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
