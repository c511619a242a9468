/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Backends from outside: registered by the program, or loaded from a plug-in file. A good one runs operations like a
 * built-in backend. A bad one is refused with a reason and leaves nothing behind. Opening a group is transactional: if
 * it fails on one rank, it fails on all, and each rank closes what it had opened.
 */
#include "init_processes.h"
#include "time_limits.h"

#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <tutti/backend.h>

#define RANKS 3

static atomic_int opened;
static atomic_int closed;
static atomic_int started;
static atomic_int ended;
static atomic_int open_fails_on; /* rank, or -1 */
static atomic_int init_fails;
static atomic_int open_waits; /* until `go`, after `opening` */
static sem_t opening;
static sem_t go;

struct copy_state {
    int32_t rank;
    int64_t calls;
};

static tutti_status fill(tutti_error *error, tutti_status status, const char *sentence)
{
    if (error) {
        memset(error, 0, sizeof(*error));
        error->size = sizeof(*error);
        error->status = status;
        error->suspect = -1;
        snprintf(error->message, sizeof(error->message), "%s", sentence);
    }
    return status;
}

static int32_t copy_available(char *why, size_t capacity)
{
    snprintf(why, capacity, "for a test");
    return 1;
}

static int32_t never_available(char *why, size_t capacity)
{
    snprintf(why, capacity, "the moon is in the wrong phase");
    return 0;
}

static tutti_status copy_init(tutti_error *error)
{
    atomic_fetch_add(&started, 1);
    return atomic_load(&init_fails) ? fill(error, TUTTI_BACKEND, "the engine does not start") : TUTTI_OK;
}

static void copy_fini(void)
{
    atomic_fetch_add(&ended, 1);
}

/* Checks the promises to a backend's `open`, and fails where the test says. */
static tutti_status copy_open(const tutti_open_info *info, void **state, tutti_error *error)
{
    EXPECT(info->size == sizeof(*info) && info->rank >= 0 && info->rank < info->world_size && info->lanes == 1);
    EXPECT(info->rendezvous && info->rendezvous->size == sizeof(tutti_rendezvous) && info->timeout_ms > 0);
    EXPECT(info->global_ranks[info->rank] == info->rank && info->device.device_type == kDLCPU);
    const char *window = info->setting(info->settings, "engine.window");
    EXPECT(window && strcmp(window, "32768") == 0);
    EXPECT(info->setting(info->settings, "no.such.key") == NULL);
    if (info->rank == atomic_load(&open_fails_on)) {
        return fill(error, TUTTI_NO_RESOURCE, "no more widgets");
    }
    if (atomic_load(&open_waits)) {
        const int ended_before = atomic_load(&ended);
        sem_post(&opening);
        while (sem_wait(&go) != 0) {
        }
        EXPECT(atomic_load(&ended) == ended_before);
    }
    struct copy_state *s = calloc(1, sizeof(*s));
    s->rank = info->rank;
    *state = s;
    atomic_fetch_add(&opened, 1);
    return TUTTI_OK;
}

static void copy_close(void *state)
{
    atomic_fetch_add(&closed, 1);
    free(state);
}

static const char *copy_supports(void *state, const tutti_op *op)
{
    (void)state;
    return op->kind == TUTTI_OP_ALL_REDUCE ? "copied" : NULL;
}

static tutti_status copy_run(void *state, tutti_op *op, tutti_error *error)
{
    struct copy_state *s = state;
    EXPECT(op->size == sizeof(*op) && op->kind == TUTTI_OP_ALL_REDUCE && op->timeout_ms > 0);
    op->sequence = ++s->calls;
    if (op->user_tag == 666) {
        return fill(error, TUTTI_BACKEND, "the copier is out of paper");
    }
    memcpy(op->dst, op->src, op->count * tutti_dtype_size(op->dtype));
    return TUTTI_OK;
}

#define COPY_OPS                                                                                                       \
    .size = sizeof(tutti_backend_ops), .available = copy_available, .init = copy_init, .fini = copy_fini,              \
    .open = copy_open, .close = copy_close, .supports = copy_supports, .run = copy_run

static const tutti_backend_ops copy_ops = {COPY_OPS};
static const tutti_backend copy_backend = {.abi = TUTTI_BACKEND_ABI,
                                           .size = sizeof(tutti_backend),
                                           .name = "copy_1",
                                           .priority = 75, /* between shm and local: auto does not take it */
                                           .ops = &copy_ops};

static const tutti_backend_ops moon_ops = {.size = sizeof(tutti_backend_ops),
                                           .available = never_available,
                                           .open = copy_open,
                                           .close = copy_close,
                                           .supports = copy_supports,
                                           .run = copy_run};
static const tutti_backend moon_backend = {.abi = TUTTI_BACKEND_ABI,
                                           .size = sizeof(tutti_backend),
                                           .name = "moon",
                                           .priority = 1000, /* would be first, if it were available */
                                           .ops = &moon_ops};

static void refused(int line, const tutti_backend *backend, tutti_status want, const char *word)
{
    tutti_error e;
    size_t before = 0;
    size_t after = 0;
    while (tutti_backend_at(before)) {
        before++;
    }
    test_status(__FILE__, line, "tutti_backend_register", tutti_backend_register(backend, &e), want, &e, word);
    EXPECT(tutti_backend_register(backend, NULL) == want);
    while (tutti_backend_at(after)) {
        after++;
    }
    if (before != after) {
        test_fail(__FILE__, line, "a refused backend is in the list");
    }
}

static void bad_registrations(void)
{
    refused(__LINE__, NULL, TUTTI_INVALID_ARGUMENT, "NULL");
    tutti_backend b = copy_backend;
    b.name = "other";
    b.ops = NULL;
    refused(__LINE__, &b, TUTTI_INVALID_ARGUMENT, "NULL");
    b.ops = &copy_ops;
    char next[16];
    snprintf(next, sizeof(next), "ABI %u", TUTTI_BACKEND_ABI + 1);
    b.abi = TUTTI_BACKEND_ABI + 1;
    refused(__LINE__, &b, TUTTI_VERSION, next);
    b.abi = 0;
    refused(__LINE__, &b, TUTTI_VERSION, "ABI 0");
    b.abi = TUTTI_BACKEND_ABI;
    b.size = sizeof(b) - 8;
    refused(__LINE__, &b, TUTTI_VERSION, "");
    b.size = sizeof(b);

    tutti_backend_ops o = copy_ops;
    b.ops = &o;
    o.size -= 8;
    refused(__LINE__, &b, TUTTI_VERSION, "");
    o = copy_ops;
    o.available = NULL;
    refused(__LINE__, &b, TUTTI_INVALID_ARGUMENT, "available");
    o = copy_ops;
    o.open = NULL;
    refused(__LINE__, &b, TUTTI_INVALID_ARGUMENT, "open");
    o = copy_ops;
    o.close = NULL;
    refused(__LINE__, &b, TUTTI_INVALID_ARGUMENT, "close");
    o = copy_ops;
    o.supports = NULL;
    refused(__LINE__, &b, TUTTI_INVALID_ARGUMENT, "supports");
    o = copy_ops;
    o.run = NULL;
    refused(__LINE__, &b, TUTTI_INVALID_ARGUMENT, "run");
    o = copy_ops;

    static const char *const names[] = {
        NULL, "", "auto", "mock", "Upper", "with-dash", "a b", "c:d", "e,f", "sixteen_letters_", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        b.name = names[i];
        refused(__LINE__, &b, TUTTI_INVALID_ARGUMENT, "name");
    }
    static const char *const taken[] = {"shm", "local", "null"};
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        b.name = taken[i];
        refused(__LINE__, &b, TUTTI_INVALID_ARGUMENT, taken[i]);
    }
}

static const char *const settings[] = {"engine.window=32K", NULL};

static tutti_status init_copy(int32_t rank, int32_t size, const char *store, tutti_group **g, tutti_error *e)
{
    return tutti_init(TUTTI_CONFIG(.rank = rank, .world_size = size, .store = store, .backend = "Copy_1",
                                   .settings = settings, .timeout_ms = LONG_MS),
                      g, e);
}

static void use_copy(void)
{
    tutti_error e;
    tutti_group *g = NULL;
    int32_t in[3] = {7, 8, 9};
    int32_t out[3] = {0};
    int64_t three = 3;
    DLTensor from = tutti_tensor_1d(in, &three, TUTTI_I32);
    DLTensor to = tutti_tensor_1d(out, &three, TUTTI_I32);

    atomic_store(&init_fails, 1);
    EXPECT_ERROR(&e, TUTTI_BACKEND, "does not start", init_copy(0, 1, NULL, &g, &e));
    EXPECT(atomic_load(&started) == 1 && atomic_load(&opened) == 0);
    atomic_store(&init_fails, 0);
    EXPECT_OK(init_copy(0, 1, NULL, &g, &e));
    EXPECT(strcmp(tutti_group_backend(g), "copy_1") == 0);
    /* the engine promises nothing; the core cancels in any group of one rank */
    EXPECT(tutti_group_capabilities(g) == (TUTTI_CAP_CANCEL | TUTTI_CAP_CANCEL_FLAGGED));
    EXPECT_OK(tutti_all_reduce(g, &from, &to, TUTTI_SUM, TUTTI_CALL(.error = &e)));
    EXPECT(out[0] == 7 && out[1] == 8 && out[2] == 9 && e.sequence == 1);
    EXPECT_ERROR(&e, TUTTI_BACKEND, "out of paper",
                 tutti_all_reduce(g, &from, &to, TUTTI_SUM, TUTTI_CALL(.error = &e, .tag = 666)));
    EXPECT(strcmp(e.backend, "copy_1") == 0 && e.operation == TUTTI_OP_ALL_REDUCE && e.sequence == 2);
    /* what it has no function for */
    int32_t found = 0;
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "copy_1", tutti_barrier(g, TUTTI_CALL(.error = &e)));
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "copy_1", tutti_broadcast(g, &from, 0, TUTTI_CALL(.error = &e)));
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "copy_1", tutti_probe(g, 0, 0, &found, NULL, &e));
    EXPECT_OK(tutti_group_error(g, &e));
    EXPECT(e.status == TUTTI_OK);
    char text[2048];
    EXPECT_OK(tutti_group_describe(g, text, sizeof(text), NULL, &e));
    EXPECT(strstr(text, "all_reduce: copied") && strstr(text, "barrier: unsupported"));

    /* init is called once until finalize, fini by it. */
    tutti_group *second = NULL;
    EXPECT_OK(init_copy(0, 1, NULL, &second, &e));
    EXPECT(atomic_load(&started) == 2 && atomic_load(&ended) == 0);
    EXPECT_OK(tutti_group_destroy(second, &e));
    EXPECT_OK(tutti_finalize(&e));
    EXPECT(atomic_load(&ended) == 1 && atomic_load(&opened) == 2 && atomic_load(&closed) == 2);
    EXPECT_OK(tutti_finalize(&e));
    EXPECT(atomic_load(&ended) == 1);
    EXPECT_OK(init_copy(0, 1, NULL, &g, &e));
    EXPECT(atomic_load(&started) == 3);
    EXPECT_OK(tutti_finalize(&e));
    EXPECT(atomic_load(&ended) == 2 && atomic_load(&opened) == 3 && atomic_load(&closed) == 3);
}

static void *open_alone(void *unused)
{
    tutti_error e;
    tutti_group *g = NULL;
    (void)unused;
    EXPECT_OK(init_copy(0, 1, NULL, &g, &e));
    return NULL;
}

/* No fini while another thread is in open. */
static void finalize_beside_open(void)
{
    tutti_error e;
    pthread_t thread;
    const int ended_before = atomic_load(&ended);
    sem_init(&opening, 0, 0);
    sem_init(&go, 0, 0);
    atomic_store(&open_waits, 1);
    EXPECT(pthread_create(&thread, NULL, open_alone, NULL) == 0);
    while (sem_wait(&opening) != 0) {
    }
    EXPECT_ERROR(&e, TUTTI_BUSY, "tutti_init", tutti_finalize(&e));
    sem_post(&go);
    pthread_join(thread, NULL);
    atomic_store(&open_waits, 0);
    EXPECT_OK(tutti_finalize(&e));
    EXPECT(atomic_load(&ended) == ended_before + 1);
    sem_destroy(&opening);
    sem_destroy(&go);
}

static void not_available(void)
{
    tutti_error e;
    tutti_group *g = NULL;
    char why[12];
    EXPECT_OK(tutti_backend_register(&moon_backend, &e));
    EXPECT(tutti_backend_at(0) == &moon_backend);
    EXPECT(tutti_backend_available(&moon_backend, why, sizeof(why)) == 0 && strcmp(why, "the moon is") == 0);
    EXPECT(tutti_backend_available(&moon_backend, NULL, 0) == 0 && tutti_backend_available(NULL, NULL, 0) == 0);
    EXPECT_ERROR(&e, TUTTI_NOT_AVAILABLE, "wrong phase",
                 tutti_init(TUTTI_CONFIG(.backend = "moon", .world_size = 1), &g, &e));
    EXPECT(strstr(e.message, "moon") && !g);
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "auto", .world_size = 1), &g, &e));
    EXPECT(strcmp(tutti_group_backend(g), "moon") != 0);
    EXPECT_OK(tutti_group_destroy(g, &e));
}

/* The path of a plug-in: beside the folder that this program lies in. */
static void plugin_path(const char *name, char path[PATH_MAX])
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[length > 0 ? length : 0] = '\0';
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(self, '/');
        *(slash ? slash : self) = '\0';
    }
    snprintf(path, PATH_MAX, "%.3000s/plugin/%s.so", self, name);
}

static void plugin_files(void)
{
    tutti_error e;
    tutti_group *g = NULL;
    char path[PATH_MAX];
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "path", tutti_backend_load(NULL, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "path", tutti_backend_load("", &e));
    EXPECT_ERROR(&e, TUTTI_NOT_FOUND, "/no/such/file.so", tutti_backend_load("/no/such/file.so", &e));
    tutti_status status = tutti_backend_load("/proc/self/status", &e); /* a file, but no library */
    EXPECT((status == TUTTI_NOT_FOUND || status == TUTTI_BACKEND) && strstr(e.message, "/proc/self/status"));
    plugin_path("no_entry", path);
    EXPECT_ERROR(&e, TUTTI_BACKEND, "tutti_backend_entry", tutti_backend_load(path, &e));
    plugin_path("other_abi", path);
    EXPECT_ERROR(&e, TUTTI_VERSION, "ABI", tutti_backend_load(path, &e));
    plugin_path("no_backend", path);
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "NULL", tutti_backend_load(path, &e));

    plugin_path("copying", path);
    EXPECT(tutti_backend_find("copying") == NULL);
    EXPECT_OK(tutti_backend_load(path, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "already", tutti_backend_load(path, &e));
    const tutti_backend *b = tutti_backend_find("COPYING");
    EXPECT(b && b->priority == -1 && tutti_backend_available(b, NULL, 0) == 1);
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "copying", .world_size = 1), &g, &e));
    EXPECT(strcmp(tutti_group_backend(g), "copying") == 0);
    EXPECT_USABLE(g);
    EXPECT_OK(tutti_barrier(g, NULL));
    EXPECT_OK(tutti_finalize(&e));
}

/* In threads, so that the counters are shared. */
static void *open_rank(void *user)
{
    const char *store = "memory:transaction";
    int32_t rank = *(int32_t *)user;
    tutti_error e;
    tutti_group *g = (tutti_group *)(uintptr_t)0x1234;
    tutti_status status = init_copy(rank, RANKS, store, &g, &e);
    test_status(__FILE__, __LINE__, "open fails on rank 1", status, TUTTI_NO_RESOURCE, &e, "no more widgets");
    EXPECT(g == (tutti_group *)(uintptr_t)0x1234);
    EXPECT(e.operation == TUTTI_OP_INIT);
    if (rank != 1) {
        EXPECT(e.suspect == 1 && strstr(e.message, "rank 1") && strstr(e.message, "copy_1"));
    }
    return NULL;
}

/* The same ranks again, now that it works; messages are what this backend has no functions for. */
static void *open_again(void *user)
{
    int32_t rank = *(int32_t *)user;
    tutti_error e;
    tutti_group *g = NULL;
    int32_t value = 4;
    int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    EXPECT_OK(init_copy(rank, RANKS, "memory:transaction", &g, &e));
    EXPECT(tutti_group_rank(g) == rank && tutti_group_size(g) == RANKS);
    int32_t other = (rank + 1) % RANKS;
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "copy_1", tutti_send(g, &t, other, 0, TUTTI_CALL(.error = &e)));
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "copy_1", tutti_recv(g, &t, other, 0, TUTTI_CALL(.error = &e), NULL));
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e)));
    EXPECT_OK(tutti_group_destroy(g, &e));
    return NULL;
}

static void in_threads(void *(*function)(void *user))
{
    pthread_t threads[RANKS];
    int32_t ranks[RANKS] = {0, 1, 2};
    for (int r = 0; r < RANKS; r++) {
        EXPECT(pthread_create(&threads[r], NULL, function, &ranks[r]) == 0);
    }
    for (int r = 0; r < RANKS; r++) {
        pthread_join(threads[r], NULL);
    }
}

static void transaction(void)
{
    int before = atomic_load(&opened);
    atomic_store(&open_fails_on, 1);
    in_threads(open_rank);
    atomic_store(&open_fails_on, -1);
    EXPECT(atomic_load(&opened) == before + RANKS - 1);
    EXPECT(atomic_load(&closed) == atomic_load(&opened));
    in_threads(open_again);
    EXPECT(atomic_load(&opened) == before + 2 * RANKS - 1);
    EXPECT(atomic_load(&closed) == atomic_load(&opened));
    EXPECT_OK(tutti_finalize(NULL));
}

static tutti_backend many[40];
static char many_names[40][16];

static void too_many(void)
{
    tutti_error e;
    tutti_status status = TUTTI_OK;
    int i = 0;
    for (; i < 40 && status == TUTTI_OK; i++) {
        snprintf(many_names[i], sizeof(many_names[i]), "b%d", i);
        many[i] = copy_backend;
        many[i].name = many_names[i];
        many[i].priority = -1 - i;
        status = tutti_backend_register(&many[i], &e);
    }
    EXPECT(status == TUTTI_NO_RESOURCE && strstr(e.message, "32"));
    EXPECT(tutti_backend_find("b0") == &many[0] && tutti_backend_find(many_names[i - 1]) == NULL);
    EXPECT(tutti_backend_at(31) != NULL && tutti_backend_at(32) == NULL);
    tutti_group *g = NULL;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.world_size = 1), &g, &e));
    EXPECT_USABLE(g);
    EXPECT_OK(tutti_finalize(&e));
}

int main(void)
{
    test_stand_alone();
    atomic_store(&open_fails_on, -1);
    bad_registrations();
    EXPECT_OK(tutti_backend_register(&copy_backend, NULL));
    refused(__LINE__, &copy_backend, TUTTI_INVALID_ARGUMENT, "already");
    use_copy();
    finalize_beside_open();
    transaction();
    not_available();
    plugin_files();
    too_many();
    return test_result();
}
