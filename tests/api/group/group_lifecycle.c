/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a group: the answers of its handle after the end, destroying a group that is in use, and the calls that a
 * callback may make. A handle is an index and a generation. A stale or invented handle is refused, and never
 * dereferenced.
 */
#include "api/check.h"
#include "time_limits.h"

#include <malloc.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <tutti/backend.h>
#include <unistd.h>

static const int64_t one = 1;

static tutti_group *alone(void)
{
    tutti_group *g = NULL;
    tutti_error e;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.rank = 0, .world_size = 1, .lanes = 2), &g, &e));
    return g;
}

/* Every function on a handle that is not alive. */
static void expect_dead(tutti_group *g, tutti_status want, const char *word)
{
    tutti_error e;
    tutti_group *child = (tutti_group *)(uintptr_t)0x1234;
    int32_t value = 5;
    int32_t found = 7;
    size_t needed = 9;
    char text[16] = "as before";
    int64_t counts[1] = {1};
    tutti_message message;
    tutti_null_record record = {.size = sizeof(record)};
    DLManagedTensorVersioned *managed = NULL;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    EXPECT(tutti_group_rank(g) == -1 && tutti_group_size(g) == -1 && tutti_group_lanes(g) == -1);
    EXPECT(tutti_group_backend(g) == NULL && tutti_group_capabilities(g) == 0);
    EXPECT(tutti_group_global_rank(g, 0) == -1 && tutti_group_local_rank(g, 0) == -1);
    EXPECT(tutti_group_device(g).device_type == 0 && tutti_group_device(g).device_id == 0);
#define DEAD(call) EXPECT_ERROR(&e, want, word, call)
#define WITH_ERROR TUTTI_CALL(.error = &e)
    DEAD(tutti_group_describe(g, text, sizeof(text), &needed, &e));
    DEAD(tutti_group_error(g, &e));
    DEAD(tutti_null_recorded(g, 0, &record, &e));
    DEAD(tutti_group_destroy(g, &e));
    DEAD(tutti_group_create(g, &(int32_t){0}, 1, NULL, &child, &e));
    DEAD(tutti_group_split(g, 0, 0, NULL, &child, &e));
    DEAD(tutti_barrier(g, WITH_ERROR));
    DEAD(tutti_all_reduce(g, &t, &t, TUTTI_SUM, WITH_ERROR));
    DEAD(tutti_reduce(g, &t, &t, TUTTI_SUM, 0, WITH_ERROR));
    DEAD(tutti_broadcast(g, &t, 0, WITH_ERROR));
    DEAD(tutti_all_gather(g, &t, &t, 0, WITH_ERROR));
    DEAD(tutti_gather(g, &t, &t, 0, 0, WITH_ERROR));
    DEAD(tutti_scatter(g, &t, &t, 0, 0, WITH_ERROR));
    DEAD(tutti_reduce_scatter(g, &t, &t, TUTTI_SUM, 0, WITH_ERROR));
    DEAD(tutti_all_to_all(g, &t, &t, 0, WITH_ERROR));
    DEAD(tutti_all_gather_v(g, &t, &t, 0, counts, NULL, WITH_ERROR));
    DEAD(tutti_reduce_scatter_v(g, &t, &t, TUTTI_SUM, 0, counts, WITH_ERROR));
    DEAD(tutti_all_to_all_v(g, &t, &t, 0, counts, NULL, counts, NULL, WITH_ERROR));
    DEAD(tutti_send(g, &t, 0, 0, WITH_ERROR));
    DEAD(tutti_recv(g, &t, 0, 0, WITH_ERROR, &message));
    DEAD(tutti_recv_alloc(g, 0, 0, WITH_ERROR, &managed, &message));
    DEAD(tutti_sendrecv(g, &t, 0, 0, &t, 0, 0, WITH_ERROR, &message));
    DEAD(tutti_probe(g, 0, 0, &found, &message, &e));
    DEAD(tutti_batch_begin(g, &e));
#undef DEAD
#undef WITH_ERROR
    EXPECT(value == 5 && found == 7 && needed == 9 && strcmp(text, "as before") == 0 && !managed);
    EXPECT(child == (tutti_group *)(uintptr_t)0x1234);
}

static void dead_handles(void)
{
    tutti_group *g = alone();
    expect_dead(NULL, TUTTI_INVALID_ARGUMENT, "NULL");
    EXPECT_OK(tutti_group_destroy(g, NULL));
    expect_dead(g, TUTTI_BAD_STATE, "destroyed");

    /* The slot of a destroyed group may be used again; the old handle stays dead. */
    for (int i = 0; i < 5000; i++) {
        tutti_group *again = NULL;
        EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "null", .rank = 0, .world_size = 2), &again, NULL));
        EXPECT(again != g);
        EXPECT(tutti_group_size(g) == -1);
        EXPECT(tutti_group_destroy(again, NULL) == TUTTI_OK);
    }

    /* Neighbours of a good handle, addresses, and noise. */
    tutti_group *good = alone();
    uintptr_t bits = (uintptr_t)good;
    const uintptr_t wrong[] = {
        bits + 1, bits ^ 8,    bits + ((uintptr_t)1 << 32), bits - ((uintptr_t)1 << 32), bits + 16, (uintptr_t)&bits, 1,
        5,        UINTPTR_MAX, (uintptr_t)1 << 63 | bits};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        expect_dead((tutti_group *)wrong[i], TUTTI_BAD_STATE, "");
    }
    EXPECT_USABLE(good);
    EXPECT_OK(tutti_group_destroy(good, NULL));
    EXPECT(tutti_group_destroy(good, NULL) == TUTTI_BAD_STATE);
}

/* A callback holds its operation open: until it returns, its thread is inside a call on the group. */
struct visit {
    tutti_group *group;
    sem_t inside;
    sem_t leave;
};

static void stay(tutti_status status, const tutti_error *error, void *user)
{
    struct visit *v = user;
    (void)error;
    EXPECT(status == TUTTI_OK);
    sem_post(&v->inside);
    while (sem_wait(&v->leave) != 0) {
    }
}

static void *visit(void *user)
{
    struct visit *v = user;
    EXPECT_OK(tutti_barrier(v->group, TUTTI_CALL(.callback = stay, .user = v)));
    return NULL;
}

static void count(const tutti_event *event, void *user)
{
    EXPECT(event->status == TUTTI_OK);
    ++*(int *)user;
}

static void one_work(tutti_group *g)
{
    tutti_work *work = NULL;
    EXPECT_OK(tutti_barrier_async(g, NULL, &work));
    EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
    EXPECT_OK(tutti_work_release(work));
}

/* Neither destroy nor finalize removes a group while a thread uses it. A finalize that refuses changes nothing, also
 * not idle groups and events objects. */
static void in_use(void)
{
    struct visit v = {.group = alone()};
    tutti_group *before = alone();
    tutti_group *after = alone();
    tutti_events *events[2] = {NULL, NULL};
    int noted = 0;
    tutti_error e;
    EXPECT_OK(tutti_events_create(before, &events[0], &e));
    EXPECT_OK(tutti_events_create(v.group, &events[1], &e));
    EXPECT_OK(tutti_events_on_complete(events[0], count, &noted, NULL, &e));
    EXPECT_OK(tutti_events_on_complete(events[1], count, &noted, NULL, &e));
    pthread_t thread;
    sem_init(&v.inside, 0, 0);
    sem_init(&v.leave, 0, 0);
    EXPECT(pthread_create(&thread, NULL, visit, &v) == 0);
    while (sem_wait(&v.inside) != 0) {
    }
    for (int i = 0; i < 3; i++) {
        EXPECT_ERROR(&e, TUTTI_BUSY, "another thread", tutti_group_destroy(v.group, &e));
        EXPECT(e.operation == TUTTI_OP_DESTROY && e.rank == 0);
        EXPECT_ERROR(&e, TUTTI_BUSY, "another thread", tutti_finalize(&e));
    }
    EXPECT(tutti_group_size(v.group) == 1 && tutti_group_size(before) == 1 && tutti_group_size(after) == 1);
    one_work(before);
    EXPECT(noted == 1);
    EXPECT_USABLE(after);
    EXPECT_OK(tutti_barrier(v.group, TUTTI_CALL(.lane = 1)));
    sem_post(&v.leave);
    pthread_join(thread, NULL);
    one_work(v.group);
    EXPECT(noted == 2);
    EXPECT_USABLE(v.group);
    EXPECT_ERROR(&e, TUTTI_BUSY, "in use; 1 events object is there: destroy it first",
                 tutti_group_destroy(v.group, &e));
    EXPECT(!strstr(e.message, "thread") && !strstr(e.message, "pending"));
    EXPECT_OK(tutti_events_destroy(events[1], &e));
    EXPECT_OK(tutti_group_destroy(v.group, &e));
    EXPECT_OK(tutti_group_destroy(after, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "already", tutti_group_destroy(v.group, &e));
    sem_destroy(&v.inside);
    sem_destroy(&v.leave);
}

/* While operations of the caller have not ended, destroy changes nothing, and its error says so. */
static void pending_works(void)
{
    tutti_group *idle = alone();
    struct visit v = {.group = alone()};
    tutti_work *works[2] = {NULL, NULL};
    tutti_error e;
    sem_init(&v.inside, 0, 0);
    sem_init(&v.leave, 0, 0);
    EXPECT_OK(tutti_barrier_async(v.group, TUTTI_CALL(.callback = stay, .user = &v), &works[0]));
    while (sem_wait(&v.inside) != 0) {
    }
    EXPECT_ERROR(&e, TUTTI_BUSY, "is in use; 1 asynchronous operation is pending: wait for it first",
                 tutti_group_destroy(v.group, &e));
    EXPECT_OK(tutti_barrier_async(v.group, NULL, &works[1])); /* behind it in the lane */
    EXPECT_ERROR(&e, TUTTI_BUSY, "is in use; 2 asynchronous operations are pending: wait for them first",
                 tutti_group_destroy(v.group, &e));
    EXPECT(!strstr(e.message, "thread") && !strstr(e.message, "events"));
    EXPECT_ERROR(&e, TUTTI_BUSY, "finalize: the group of 1 rank (backend ", tutti_finalize(&e));
    EXPECT(strstr(e.message, "is in use; 2 asynchronous operations are pending: wait for them first") != NULL);
    EXPECT(!strstr(e.message, "thread") && !strstr(e.message, "events"));
    EXPECT(tutti_group_size(idle) == 1);
    sem_post(&v.leave);
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(tutti_work_wait(works[i], TUTTI_FOREVER));
        EXPECT_OK(tutti_work_release(works[i]));
    }
    EXPECT_OK(tutti_finalize(&e));
    EXPECT(tutti_group_size(v.group) == -1 && tutti_group_size(idle) == -1);
    sem_destroy(&v.inside);
    sem_destroy(&v.leave);
}

static void finalize_takes_all(void)
{
    tutti_group *groups[3] = {alone(), alone(), alone()};
    tutti_error e;
    EXPECT_OK(tutti_finalize(&e));
    for (int i = 0; i < 3; i++) {
        EXPECT(tutti_group_size(groups[i]) == -1);
        EXPECT(tutti_group_destroy(groups[i], NULL) == TUTTI_BAD_STATE);
    }
    EXPECT_OK(tutti_finalize(&e));
    EXPECT_OK(tutti_finalize(NULL));
}

/* A thread that joins, through a server that is no store of Tutti. */
struct joiner {
    char url[48];
    bool grows;
};

static void *join(void *user)
{
    const struct joiner *j = user;
    tutti_group *g = NULL;
    tutti_error e;
    const tutti_status status =
        j->grows ? tutti_group_join(j->url, TUTTI_CONFIG(.timeout_ms = LONG_MS), &g, &e)
                 : tutti_init(TUTTI_CONFIG(.rank = 1, .world_size = 2, .store = j->url, .timeout_ms = LONG_MS), &g, &e);
    test_status(__FILE__, __LINE__, "join", status, TUTTI_PROTOCOL, &e, "not a store");
    return NULL;
}

/* A finalize beside a thread that joins changes nothing. The thread has connected, and waits for the server's
 * answer. */
static void beside_join(bool grows)
{
    static const char nonsense[4096] = "nonsense";
    tutti_group *idle = alone();
    tutti_error e;
    pthread_t thread;
    struct joiner j = {.grows = grows};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(at);
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(bind(server, (struct sockaddr *)&at, length) == 0 && listen(server, 1) == 0);
    EXPECT(getsockname(server, (struct sockaddr *)&at, &length) == 0);
    snprintf(j.url, sizeof(j.url), "tcp://127.0.0.1:%d", ntohs(at.sin_port));
    EXPECT(pthread_create(&thread, NULL, join, &j) == 0);
    const int connection = accept(server, NULL, NULL);
    EXPECT(connection >= 0);
    EXPECT_ERROR(&e, TUTTI_BUSY, "finalize: another thread is inside tutti_init", tutti_finalize(&e));
    EXPECT(tutti_finalize(NULL) == TUTTI_BUSY);
    EXPECT(tutti_group_size(idle) == 1);
    EXPECT_USABLE(idle);
    EXPECT(write(connection, nonsense, sizeof(nonsense)) == sizeof(nonsense));
    pthread_join(thread, NULL);
    close(connection);
    close(server);
    EXPECT_OK(tutti_finalize(&e));
    EXPECT(tutti_group_size(idle) == -1);
}

static sem_t in_callback;

/* Joins until finalize waits for this callback. */
static void join_until_refused(tutti_status status, const tutti_error *error, void *user)
{
    (void)error;
    tutti_error e;
    tutti_status joined = TUTTI_OK;
    EXPECT(status == TUTTI_OK);
    sem_post(&in_callback);
    while (joined == TUTTI_OK) {
        tutti_group *g = NULL;
        joined = tutti_init(TUTTI_CONFIG(.backend = "local", .world_size = 1), &g, &e);
        tutti_group_destroy(g, NULL);
        usleep(1000);
    }
    *(bool *)user = joined == TUTTI_BUSY && strstr(e.message, "tutti_finalize");
}

/* After an abort, finalize waits for a callback. If that joins then, neither waits for the other one. */
static void join_in_callback(void)
{
    tutti_group *g = NULL;
    tutti_work *work = NULL;
    tutti_error e;
    bool refused = false;
    tutti_status status;
    sem_init(&in_callback, 0, 0);
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "local", .world_size = 1, .timeout_ms = TUTTI_FOREVER), &g, &e));
    EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.callback = join_until_refused, .user = &refused), &work));
    sem_wait(&in_callback);
    EXPECT_OK(tutti_group_abort(g, &e));
    while ((status = tutti_finalize(&e)) == TUTTI_BUSY && strstr(e.message, "tutti_init")) {
        usleep(100); /* the callback is inside of it */
    }
    EXPECT_OK(status);
    EXPECT(refused);
    EXPECT_OK(tutti_work_release(work));
}

struct inside {
    tutti_group *group;
    tutti_group *other;
    int calls;
    tutti_status status;
    char message[440];
};

/* A callback's calls on its own group are refused; calls on other groups work. */
static void try_everything(tutti_status status, const tutti_error *error, void *user)
{
    struct inside *in = user;
    tutti_error e;
    tutti_group *child = NULL;
    int32_t value = 3;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    in->calls++;
    in->status = status;
    snprintf(in->message, sizeof(in->message), "%s", error->message);
    EXPECT(error->size == sizeof(*error) && error->status == status);
    EXPECT_ERROR(&e, TUTTI_WOULD_DEADLOCK, "callback", tutti_barrier(in->group, TUTTI_CALL(.error = &e)));
    EXPECT_ERROR(&e, TUTTI_WOULD_DEADLOCK, "callback",
                 tutti_all_reduce(in->group, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e, .lane = 1)));
    EXPECT_ERROR(&e, TUTTI_WOULD_DEADLOCK, "callback", tutti_recv(in->group, &t, 0, 0, TUTTI_CALL(.error = &e), NULL));
    EXPECT(tutti_group_split(in->group, 0, 0, NULL, &child, &e) == TUTTI_WOULD_DEADLOCK);
    EXPECT(tutti_group_create(in->group, &(int32_t){0}, 1, NULL, &child, &e) == TUTTI_WOULD_DEADLOCK);
    EXPECT(tutti_group_destroy(in->group, &e) == TUTTI_BUSY);
    EXPECT(tutti_finalize(&e) == TUTTI_BUSY);
    EXPECT(tutti_group_size(in->group) == 1 && !child);
    if (in->other && tutti_group_size(in->other) == 1) {
        EXPECT_USABLE(in->other);
    }
}

static void from_callbacks(void)
{
    struct inside in = {.group = alone(), .calls = 0};
    int32_t value = 4;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    tutti_error e;
    EXPECT_OK(tutti_all_reduce(in.group, &t, &t, TUTTI_SUM, TUTTI_CALL(.callback = try_everything, .user = &in)));
    EXPECT(in.calls == 1 && in.status == TUTTI_OK);
    EXPECT_USABLE(in.group);
    in.other = alone();
    EXPECT_OK(tutti_barrier(in.group, TUTTI_CALL(.callback = try_everything, .user = &in)));
    EXPECT(in.calls == 2);
    /* an error before the start: no callback; and none for a dead group */
    EXPECT(tutti_barrier(in.group, TUTTI_CALL(.callback = try_everything, .user = &in, .lane = 9)) ==
           TUTTI_INVALID_ARGUMENT);
    tutti_finalize(&e);
    EXPECT(tutti_barrier(in.group, TUTTI_CALL(.callback = try_everything, .user = &in)) == TUTTI_BAD_STATE);
    EXPECT(in.calls == 2);
}

/* A callback inside a callback of another group, and back: the first group is still waiting. */
static void back_again(tutti_status status, const tutti_error *error, void *user)
{
    struct inside *in = user;
    tutti_error e;
    (void)status;
    (void)error;
    if (in->calls++ == 0) {
        EXPECT_OK(tutti_barrier(in->other, TUTTI_CALL(.callback = back_again, .user = in)));
    } else {
        EXPECT_ERROR(&e, TUTTI_WOULD_DEADLOCK, "callback",
                     tutti_barrier(in->group, TUTTI_CALL(.callback = back_again, .user = in, .error = &e)));
    }
}

static void nested_callbacks(void)
{
    struct inside in = {.group = alone(), .other = alone()};
    EXPECT_OK(tutti_barrier(in.group, TUTTI_CALL(.callback = back_again, .user = &in)));
    EXPECT(in.calls == 2);
    EXPECT_OK(tutti_finalize(NULL));
}

static void count_end(tutti_status status, const tutti_error *error, void *user)
{
    struct inside *in = user;
    in->calls++;
    in->status = status;
    snprintf(in->message, sizeof(in->message), "%s", error->message);
}

/* A failed operation ends once as well: the callback gets the same status and message as the caller. */
static tutti_status callback_of_failure(tutti_group *g, void *user)
{
    (void)user;
    struct inside in = {.group = g};
    int32_t values[2] = {1, 2};
    int64_t count = 1 + (tutti_group_rank(g) == 0);
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_I32);
    tutti_error e;
    EXPECT(tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.callback = count_end, .user = &in, .error = &e)) ==
           TUTTI_MISMATCH);
    EXPECT(in.calls == 1 && in.status == TUTTI_MISMATCH && strcmp(in.message, e.message) == 0 && e.message[0]);
    EXPECT_USABLE(g);
    in.calls = 0;
    if (tutti_group_rank(g) == 0) {
        EXPECT(tutti_recv(g, &t, 1, 0, TUTTI_CALL(.callback = count_end, .user = &in, .error = &e, .timeout_ms = 100),
                          NULL) == TUTTI_TIMEOUT);
        EXPECT(in.calls == 1 && in.status == TUTTI_TIMEOUT && strcmp(in.message, e.message) == 0);
    } else {
        tutti_status status = tutti_barrier(g, TUTTI_CALL(.callback = count_end, .user = &in, .error = &e));
        EXPECT(status != TUTTI_OK && in.calls == 1 && in.status == status && strcmp(in.message, e.message) == 0);
    }
    return TUTTI_OK;
}

/* Sub-groups outlive their parent, and so does its store. */
static tutti_status orphans(tutti_group *world, void *user)
{
    (void)user;
    const int32_t all[3] = {2, 1, 0};
    tutti_group *child = NULL;
    tutti_group *grandchild = NULL;
    tutti_error e;
    EXPECT_OK(tutti_group_create(world, all, 3, NULL, &child, &e));
    EXPECT_OK(tutti_group_destroy(world, &e));
    EXPECT_USABLE(child);
    EXPECT_OK(tutti_group_split(child, 4, 0, NULL, &grandchild, &e));
    EXPECT_OK(tutti_group_destroy(child, &e));
    EXPECT_USABLE(grandchild);
    EXPECT_OK(tutti_barrier(grandchild, NULL));
    EXPECT_OK(tutti_group_destroy(grandchild, &e));
    return TUTTI_OK;
}

/* The keys of a destroyed group go with its last rank: a process may make any number of groups. */
static tutti_status make_groups(tutti_group *world, void *user)
{
    enum { GROUPS = 500, BYTES_MOST = 1000 };
    static const int32_t all[] = {0, 1};
    size_t before = 0;
    tutti_error e;
    (void)user;
    for (int i = 0; i < 2 * GROUPS; i++) {
        tutti_group *child = NULL;
        EXPECT_OK(tutti_group_create(world, all, 2, NULL, &child, &e));
        EXPECT_OK(tutti_group_destroy(child, &e));
        EXPECT_OK(tutti_barrier(world, TUTTI_CALL(.error = &e)));
        before = i == GROUPS ? mallinfo2().uordblks : before;
    }
    const size_t after = mallinfo2().uordblks;
    EXPECT(after < before + (size_t)GROUPS * BYTES_MOST);
    EXPECT_OK(tutti_barrier(world, TUTTI_CALL(.error = &e)));
    return tutti_group_destroy(world, &e);
}

int main(void)
{
    alarm(100); /* a callback that waits for itself would hang */
    EXPECT_OK(tutti_finalize(NULL));
    dead_handles();
    in_use();
    pending_works();
    finalize_takes_all();
    beside_join(false);
    beside_join(true);
    join_in_callback();
    from_callbacks();
    test_ranks(2, callback_of_failure);
    test_ranks(3, orphans);
    test_ranks(2, make_groups);
    nested_callbacks();
    return test_result();
}
