/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=60 */
/*
 * The suspects of a timeout and of a death that another rank has seen. When a rank's deadline passes, peers may have
 * aborted or ended because of another rank: they are no suspects. The test plays all ranks but 0.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/process/proc.h"
#include "engine/descriptor.h"
#include "engine/failure/peers.h"
#include "unit/engine/engine_support.h"

#define CALL_MS 30

/* A rank has aborted because of another one, and the alarm has not been seen yet. */
static void give_up(struct cluster *c, int rank, tutti_status cause, int32_t lane, int suspect)
{
    struct tti_fault *f = tti_fault_of(c->engines[0], rank);
    f->cause = cause;
    f->lane = lane;
    f->operation = lane < 0 ? TUTTI_OP_NONE : TUTTI_OP_ALL_REDUCE;
    f->call = lane < 0 ? 0 : 1;
    f->suspects[0] = UINT64_C(1) << suspect;
    f->waited_ms = 1234;
    atomic_store_explicit(&f->state, TTI_FAULT_FAILED, memory_order_release);
}

static void open_cluster(struct cluster *c)
{
    assert_int_equal(cluster_open(c, 4, 1, 16384, (struct waiting){0, 0, 0}), 0);
}

static void expect(tutti_status status, const tutti_error *e, int suspect)
{
    assert_int_equal(status, TUTTI_TIMEOUT);
    assert_int_equal(e->status, TUTTI_TIMEOUT);
    assert_int_equal(e->suspect, suspect);
}

/* By rank 0. The others do not arrive. */
static tutti_status all_reduce(struct cluster *c, int32_t lane, tutti_error *e)
{
    int32_t x[3] = {1, 2, 3};
    tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, x, x, 3, 0);
    op.timeout_ms = CALL_MS;
    op.lane = lane;
    return tti_engine_run(c->engines[0], &op, e);
}

static void the_first_rank_that_gave_up_is_named(void **state)
{
    (void)state;
    struct cluster c;
    tutti_error e;
    open_cluster(&c);
    give_up(&c, 1, TUTTI_TIMEOUT, 0, 2);
    expect(all_reduce(&c, 0, &e), &e, 2);
    assert_non_null(strstr(e.message, "all_reduce (call 1, lane 0) waited 1234 ms; not arrived: rank 2"));
    assert_null(strstr(e.message, "suspected"));
    assert_null(strstr(e.message, "laggard"));
    assert_int_equal(e.elapsed_ms, 1234);
    cluster_close(&c);
}

static void a_rank_that_gave_up_its_messages_is_named(void **state)
{
    (void)state;
    struct cluster c;
    tutti_error e;
    int32_t x[3];
    open_cluster(&c);
    give_up(&c, 1, TUTTI_TIMEOUT, TTI_FAULT_MESSAGES, 2);
    tutti_op op = op_of(TUTTI_OP_RECV, NULL, x, 3, 1);
    tutti_op *ops[] = {&op};
    /* a failure of another rank's messages revokes the group for this rank */
    assert_int_equal(tti_engine_run_p2p(c.engines[0], ops, 1, CALL_MS, &e), TUTTI_REVOKED);
    assert_int_equal(e.suspect, 2);
    assert_int_equal(e.vendor_code, TUTTI_TIMEOUT);
    assert_non_null(strstr(e.message, "a message of rank 1 waited 1234 ms for the other side: rank "));
    cluster_close(&c);
}

/* Rank 1 saw that rank 2 writes a core dump. The dump is complete and the process still runs when rank 0 looks. */
static void a_death_that_another_rank_has_seen_is_a_death(void **state)
{
    (void)state;
    struct cluster c;
    tutti_error e;
    open_cluster(&c);
    give_up(&c, 1, TUTTI_PEER_CRASHING, TTI_FAULT_ANYWHERE, 2);
    assert_int_equal(all_reduce(&c, 0, &e), TUTTI_PEER_CRASHING);
    assert_int_equal(e.suspect, 2);
    assert_non_null(strstr(e.message,
                           "all_reduce (call 1, lane 0) cannot end: rank 1 gave up the group: a rank's process "
                           "is writing a core dump; suspected: rank 2"));
    assert_int_equal(all_reduce(&c, 0, &e), TUTTI_REVOKED);
    cluster_close(&c);
}

/* The engine above aborted a call because of a death elsewhere: the late ranks, which are the suspects, live. */
static void suspects_of_an_aborted_call_may_live(void **state)
{
    (void)state;
    struct cluster c;
    tutti_error e;
    assert_int_equal(cluster_open(&c, 4, 2, 16384, (struct waiting){0, 0, 0}), 0);
    give_up(&c, 1, TUTTI_PEER_DEAD, 0, 2);
    assert_int_equal(all_reduce(&c, 1, &e), TUTTI_REVOKED);
    cluster_close(&c);
}

/* It is wrong: rank 0 lives. */
static void a_rank_that_others_take_for_dead_is_revoked(void **state)
{
    (void)state;
    struct cluster c;
    tutti_error e;
    open_cluster(&c);
    give_up(&c, 1, TUTTI_PEER_DEAD, TTI_FAULT_ANYWHERE, 0);
    assert_int_equal(all_reduce(&c, 0, &e), TUTTI_REVOKED);
    cluster_close(&c);
}

/* Shows the rank as a process of its own, which then ends. */
static pid_t embody(struct cluster *c, int rank, int signal)
{
    int ready[2];
    struct tti_proc_id id = {0};
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no process behind */
        tti_proc_self(&id);
        _exit(write(ready[1], &id, sizeof(id)) == (ssize_t)sizeof(id) ? pause() : 1);
    }
    assert_true(child > 0);
    assert_int_equal(read(ready[0], &id, sizeof(id)), sizeof(id));
    close(ready[0]);
    close(ready[1]);
    struct tti_segment_header *h = (struct tti_segment_header *)c->segments[rank];
    h->pid = id.pid;
    h->started = id.started;
    h->space = id.space;
    int seen;
    assert_int_equal(kill(child, signal), 0);
    assert_int_equal(waitpid(child, &seen, WUNTRACED), child);
    return child;
}

/* The deadline of rank 0 passes while it waits for rank 3, in a call at which all have arrived. */
static tutti_status time_out_inside(struct cluster *c, tutti_error *e)
{
    struct tti_engine *engine = c->engines[0];
    struct tti_lane *lane = &engine->lanes[0];
    const tutti_op op = op_of(TUTTI_OP_BARRIER, NULL, NULL, 0, 0);
    engine->futex_private = 0; /* processes from now on */
    lane->call = 1;
    lane->op = &op;
    lane->error = e;
    for (int r = 0; r < c->layout.size; r++) {
        atomic_store(&tti_arrival_of(lane, r, 1)->sequence, 1);
    }
    return tti_fault_timeout(lane, 3);
}

static void rank_that_left_is_no_suspect(void **state)
{
    (void)state;
    struct cluster c;
    tutti_error e;
    open_cluster(&c);
    embody(&c, 1, SIGKILL);
    const pid_t stopped = embody(&c, 2, SIGSTOP);
    atomic_store(&tti_header(c.engines[0], 1)->left, 1); /* it needed nothing more */
    expect(time_out_inside(&c, &e), &e, 2);
    assert_non_null(strstr(e.message, "arrived but did not go on: rank 2 (process "));
    assert_non_null(strstr(e.message, "stopped"));
    assert_null(strstr(e.message, "rank 1"));
    kill(stopped, SIGKILL);
    waitpid(stopped, NULL, 0);
    cluster_close(&c);
}

/* The backend hier rewrites the numbers behind the word. */
static void each_number_has_the_word_before_its_list(void **state)
{
    (void)state;
    struct cluster c;
    char text[300];
    uint64_t ranks[TTI_MAX_RANKS / 64] = {0xfe};
    assert_int_equal(cluster_open(&c, 8, 1, 16384, (struct waiting){500, 20000, 0}), 0);
    tti_peers_text(c.engines[0], 0, ranks, text, sizeof(text));
    assert_string_equal(text, "rank 1 (no call yet), rank 2 (no call yet), rank 3 (no call yet), rank 4 (no call yet), "
                              "rank 5, 6, 7");
    cluster_close(&c);
}

/* Whatever marks the descriptor has. */
static void the_last_call_is_named(void **state)
{
    (void)state;
    struct cluster c;
    char text[300];
    const uint64_t ranks[TTI_MAX_RANKS / 64] = {UINT64_C(1) << 1};
    tutti_op op = op_of(TUTTI_OP_BROADCAST, NULL, NULL, 3, 0);
    open_cluster(&c);
    struct tti_arrival *line = tti_arrival_of(&c.engines[0]->lanes[0], 1, 1);
    for (int failed = 0; failed < 2; failed++) {
        tti_descriptor_make(&op, 4, line->descriptor);
        tti_descriptor_agree(line->descriptor);
        if (failed) {
            tti_descriptor_fail(line->descriptor, TUTTI_NO_MEMORY);
        } else {
            tti_descriptor_cancel(line->descriptor);
        }
        atomic_store(&line->sequence, 1);
        tti_peers_text(c.engines[0], 0, ranks, text, sizeof(text));
        assert_string_equal(text, "rank 1 (last call: broadcast, 1)");
    }
    cluster_close(&c);
}

static void a_dead_rank_is_named(void **state)
{
    (void)state;
    struct cluster c;
    tutti_error e;
    open_cluster(&c);
    embody(&c, 1, SIGKILL);
    expect(time_out_inside(&c, &e), &e, 1);
    assert_non_null(strstr(e.message, "arrived but did not go on: rank 1 (process "));
    cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_rank_that_gave_up_is_named),
        cmocka_unit_test(a_rank_that_gave_up_its_messages_is_named),
        cmocka_unit_test(a_death_that_another_rank_has_seen_is_a_death),
        cmocka_unit_test(suspects_of_an_aborted_call_may_live),
        cmocka_unit_test(a_rank_that_others_take_for_dead_is_revoked),
        cmocka_unit_test(rank_that_left_is_no_suspect),
        cmocka_unit_test(each_number_has_the_word_before_its_list),
        cmocka_unit_test(the_last_call_is_named),
        cmocka_unit_test(a_dead_rank_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
