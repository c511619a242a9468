/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flight recorder in one process, and the suspects in made-up records.
 *
 * tutti-test: sources=tools/trace/hang.c,tools/trace/snapshot.c
 */
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <tutti/tutti.h>

#include "diag/file.h"
#include "diag/flight.h"
#include "trace/hang.h"

static const struct tti_flight_op small = {
    .count = 2, .bytes = 8, .kind = TUTTI_OP_ALL_REDUCE, .dtype = TUTTI_F32, .redop = TUTTI_SUM};

static struct tti_flight_member member(int32_t rank, int32_t size)
{
    return (struct tti_flight_member){.name = "w0",
                                      .rank = rank,
                                      .size = size,
                                      .world_rank = rank,
                                      .lanes = 1,
                                      .opened_by = TUTTI_OP_INIT,
                                      .is_world = true};
}

static struct tti_flight_group *join(int32_t rank, int32_t size, enum tti_flight_mode mode)
{
    const struct tti_flight_member m = member(rank, size);
    struct tti_flight_group *g = tti_flight_join(&m, mode);
    tti_flight_open(g, "test");
    return g;
}

/* Reads the record that this process has made and keeps open. Skips the file `except`. */
static void read_own(struct tti_snapshot *s, int except)
{
    const char *why;
    DIR *folder = opendir("/proc/self/fd");
    bool found = false;
    assert(folder);
    for (struct dirent *e = readdir(folder); e && !found; e = readdir(folder)) {
        const int fd = atoi(e->d_name);
        found = fd > 2 && fd != except && tti_flight_is(fd) && tti_snapshot_read(fd, s, &why);
    }
    closedir(folder);
    assert(found);
}

/* There is one recorder for each process, so each case runs in a process of its own. */
static void in_child(void (*run)(void))
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        unsetenv("TUTTI_TRACE_DIR");
        unsetenv(TTI_FLIGHT_VARIABLE);
        run();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void call(struct tti_flight_tally *t, int64_t sequence)
{
    tti_flight_call_begin(t);
    tti_flight_call_end(t, sequence);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void fails_once(void)
{
    struct tti_snapshot s;
    struct tti_flight_tally *t = tti_flight_tally_take(join(0, 2, TTI_FLIGHT_ON), &small, 0);
    for (int64_t i = 1; i <= 3; i++) {
        call(t, i);
    }
    tti_flight_call_failed(t, TUTTI_PEER_DEAD);
    read_own(&s, -1);
    assert(s.op_count == 2);
    assert(s.ops[0].status == TUTTI_PEER_DEAD && s.ops[0].sequence == 3 && s.ops[0].calls == 1);
    assert(s.ops[1].status == TUTTI_OK && s.ops[1].sequence == 2 && s.ops[1].calls == 2);
    assert(s.counters[TUTTI_OP_ALL_REDUCE].calls == 3 && s.counters[TUTTI_OP_ALL_REDUCE].bytes == 24);
    assert(s.counters[TUTTI_OP_ALL_REDUCE].failures == 1 && s.groups[0].last[0] == 3);
    tti_snapshot_free(&s);
}

static void failed_calls_are_taken_from_their_tally(void **state)
{
    (void)state;
    in_child(fails_once);
}

static void has_no_folder(void)
{
    struct tti_snapshot s;
    setenv("TUTTI_TRACE_DIR", "/proc/nowhere/to/be/written", 1);
    assert(join(0, 1, TTI_FLIGHT_ON));
    read_own(&s, -1);
    assert(s.process.pid == (uint32_t)getpid() && s.group_count == 1);
    tti_snapshot_free(&s);
}

static void a_folder_that_cannot_be_written_is_no_reason_to_record_nothing(void **state)
{
    (void)state;
    in_child(has_no_folder);
}

static void makes_many_groups(void)
{
    struct tti_snapshot s;
    struct tti_flight_group *last = NULL;
    for (unsigned i = 0; i < TTI_FLIGHT_GROUPS; i++) {
        last = join(0, 1, TTI_FLIGHT_ON);
        assert(last);
    }
    assert(!join(0, 1, TTI_FLIGHT_ON));
    tti_flight_leave(last);
    assert(join(0, 1, TTI_FLIGHT_ON) == last);
    read_own(&s, -1);
    assert(s.unrecorded == 1 && s.group_count == (int)TTI_FLIGHT_GROUPS);
    tti_snapshot_free(&s);
}

static void groups_without_a_place_are_counted(void **state)
{
    (void)state;
    in_child(makes_many_groups);
}

static int launcher_makes(int32_t rank, int32_t size)
{
    char text[16];
    const int fd = tti_flight_make(NULL, "job", rank, size);
    assert(fd >= 0);
    snprintf(text, sizeof(text), "%d", fd);
    setenv(TTI_FLIGHT_VARIABLE, text, 1);
    return fd;
}

static void makes_a_world_of_its_own(void)
{
    struct tti_snapshot s;
    const char *why;
    const int fd = launcher_makes(3, 4);
    assert(join(0, 2, TTI_FLIGHT_ON));
    assert(tti_snapshot_read(fd, &s, &why));
    assert(s.rank == 3 && s.world_size == 4);
    tti_snapshot_free(&s);
}

static void the_launcher_knows_the_rank(void **state)
{
    (void)state;
    in_child(makes_a_world_of_its_own);
}

/* The first program of the rank counts calls, and ends when `wait_for` is closed; its count remains in a tally. */
static void first_program(int wait_for)
{
    char byte;
    struct tti_flight_tally *t = tti_flight_tally_take(join(0, 1, TTI_FLIGHT_ON), &small, 0);
    assert(t);
    for (int64_t i = 1; i <= 5; i++) {
        call(t, i);
    }
    assert(write(wait_for, "x", 1) == 1);
    assert(read(wait_for, &byte, 1) == 0);
    _exit(0);
}

static void comes_while_another_lives(int fd)
{
    struct tti_snapshot s;
    const char *why;
    assert(join(0, 1, TTI_FLIGHT_ON));
    read_own(&s, fd);
    assert(s.process.pid == (uint32_t)getpid());
    tti_snapshot_free(&s);
    assert(tti_snapshot_read(fd, &s, &why));
    assert(s.process.pid != (uint32_t)getpid() && s.op_count == 1 && s.ops[0].calls == 5);
    tti_snapshot_free(&s);
}

static void runs_programs(void)
{
    struct tti_snapshot s;
    const char *why;
    int ends[2];
    char byte;
    int status = -1;
    const int fd = launcher_makes(0, 1);
    assert(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    const pid_t first = fork();
    if (first == 0) {
        close(ends[0]);
        first_program(ends[1]);
    }
    close(ends[1]);
    assert(read(ends[0], &byte, 1) == 1);
    const pid_t second = fork();
    if (second == 0) {
        comes_while_another_lives(fd);
        _exit(0);
    }
    assert(waitpid(second, &status, 0) == second && status == 0);
    close(ends[0]);
    assert(waitpid(first, &status, 0) == first && status == 0);
    struct tti_flight_group *g = join(0, 1, TTI_FLIGHT_ON);
    assert(tti_snapshot_read(fd, &s, &why));
    assert(s.process.pid == (uint32_t)getpid() && s.op_count == 0 && s.group_count == 1);
    assert(s.counters[TUTTI_OP_ALL_REDUCE].calls == 5 && s.counters[TUTTI_OP_ALL_REDUCE].bytes == 40);
    tti_snapshot_free(&s);
    tti_flight_leave(g);
}

static void programs_of_a_rank_do_not_mix_and_counts_stay(void **state)
{
    (void)state;
    in_child(runs_programs);
}

static void is_full_for_a_while(void)
{
    struct tti_snapshot s;
    struct tti_flight_group *g = join(0, 1, TTI_FLIGHT_FULL);
    assert(tti_flight_is_timed(small.bytes));
    tti_flight_leave(g);
    assert(join(0, 1, TTI_FLIGHT_ON));
    assert(!tti_flight_is_timed(small.bytes));
    read_own(&s, -1);
    assert(!s.full);
    tti_snapshot_free(&s);
}

static void full_lasts_as_long_as_groups_do(void **state)
{
    (void)state;
    in_child(is_full_for_a_while);
}

static tutti_status do_nothing(tutti_group *group, void *user)
{
    (void)user;
    return tutti_barrier(group, NULL);
}

static void runs_threads_twice(void)
{
    struct tti_snapshot s;
    assert(tutti_run_threads(2, do_nothing, NULL, NULL) == TUTTI_OK);
    assert(tutti_run_threads(2, do_nothing, NULL, NULL) == TUTTI_OK);
    read_own(&s, -1);
    assert(s.group_count == 4);
    assert(strcmp(s.groups[0].name, s.groups[1].name) == 0 && strcmp(s.groups[2].name, s.groups[3].name) == 0);
    assert(strcmp(s.groups[0].name, s.groups[2].name) != 0 && strcmp(s.groups[0].name, "w0") != 0);
    tti_snapshot_free(&s);
}

static void worlds_of_threads_have_names_of_their_own(void **state)
{
    (void)state;
    in_child(runs_threads_twice);
}

/* A group of one, at that place: the application's choice. */
static tutti_group *world_at(const char *store)
{
    tutti_group *g = NULL;
    assert(tutti_init(TUTTI_CONFIG(.rank = 0, .world_size = 1, .backend = "local", .store = store), &g, NULL) ==
           TUTTI_OK);
    return g;
}

static void opens_worlds_at_several_places(void)
{
    struct tti_snapshot s;
    const int32_t all[] = {0};
    char stores[3][64];
    tutti_group *part = NULL;
    for (int i = 0; i < 3; i++) {
        snprintf(stores[i], sizeof(stores[i]), "unix:flight-%d-%d", (int)getpid(), i);
    }
    setenv("TUTTI_STORE", stores[2], 1);
    tutti_group *a = world_at(stores[0]);
    tutti_group *b = world_at(stores[1]);
    world_at(stores[0]);
    world_at(stores[2]);
    assert(tutti_group_create(a, all, 1, NULL, &part, NULL) == TUTTI_OK);
    assert(tutti_group_create(b, all, 1, NULL, &part, NULL) == TUTTI_OK);
    read_own(&s, -1);
    assert(s.group_count == 6);
    for (size_t i = 0; i < 6; i++) {
        for (size_t k = 0; k < i; k++) {
            assert(strcmp(s.groups[i].name, s.groups[k].name) != 0);
        }
    }
    assert(strncmp(s.groups[0].name, "w0@", 3) == 0 && strncmp(s.groups[1].name, "w0@", 3) == 0);
    assert(strncmp(s.groups[2].name, "w1@", 3) == 0 && strcmp(s.groups[2].name + 2, s.groups[0].name + 2) == 0);
    assert(strcmp(s.groups[3].name, "w0") == 0); /* the job's own */
    tti_snapshot_free(&s);
}

static void worlds_of_several_stores_have_names_of_their_own(void **state)
{
    (void)state;
    in_child(opens_worlds_at_several_places);
}

/* ---- suspects ---------------------------------------------------------------------------------------------------- */

#define RANKS 4

struct scene {
    struct tti_snapshot snapshots[RANKS];
    struct tti_snapshot_op ops[RANKS][4];
    struct tti_hang_rank ranks[RANKS];
    struct tti_hang hang;
};

static void set_up(struct scene *c, int ranks)
{
    *c = (struct scene){.hang = {.wait_count = 0}};
    for (int r = 0; r < ranks; r++) {
        struct tti_snapshot *s = &c->snapshots[r];
        s->ops = c->ops[r];
        s->group_count = 1;
        s->groups[0] = (struct tti_snapshot_group){
            .name = "w0", .rank = r, .size = RANKS, .world_rank = r, .lanes = 1, .alive = true};
        for (int l = 0; l < TTI_FLIGHT_LANES; l++) {
            s->groups[0].running[l] = -1;
        }
        c->ranks[r] = (struct tti_hang_rank){.rank = r, .snapshot = s, .state = TTI_PROC_SLEEPING};
    }
}

static void run_op(struct scene *c, int rank, uint8_t kind, int32_t peer, uint64_t sequence)
{
    struct tti_snapshot *s = &c->snapshots[rank];
    c->ops[rank][s->op_count] = (struct tti_snapshot_op){.what = {.kind = kind, .root = peer},
                                                         .status = TTI_FLIGHT_RUNNING,
                                                         .number = s->op_count + 1,
                                                         .calls = 1,
                                                         .sequence = sequence};
    if (kind < TUTTI_OP_SEND) {
        s->groups[0].running[0] = (int32_t)s->op_count;
        s->groups[0].last[0] = sequence - 1;
    }
    s->op_count++;
}

/* Rank 1 has started #5 and never polled it again; the others are one call further. */
static void rank_in_an_ended_call_is_the_suspect(void **state)
{
    (void)state;
    struct scene c;
    set_up(&c, RANKS);
    for (int r = 0; r < RANKS; r++) {
        run_op(&c, r, TUTTI_OP_BARRIER, 0, r == 1 ? 5 : 6);
    }
    assert_true(tti_hang_find(c.ranks, RANKS, &c.hang));
    assert_int_equal(c.hang.suspect_count, 1);
    assert_int_equal(c.hang.nodes[c.hang.suspects[0].node_index].rank, 1);
    assert_int_equal(c.hang.suspects[0].waiting, 3);
    tti_hang_free(&c.hang);
}

/* Rank 3 left no record. Rank 0 waits for 1 and for 2, and only the second wait closes a cycle. */
static void circles_are_found_by_any_wait(void **state)
{
    (void)state;
    struct scene c;
    set_up(&c, RANKS - 1);
    run_op(&c, 0, TUTTI_OP_RECV, 1, 0);
    run_op(&c, 0, TUTTI_OP_RECV, 2, 0);
    run_op(&c, 1, TUTTI_OP_RECV, 3, 0);
    run_op(&c, 2, TUTTI_OP_RECV, 0, 0);
    assert_true(tti_hang_find(c.ranks, RANKS - 1, &c.hang));
    assert_int_equal(c.hang.suspect_count, 0);
    assert_int_equal(c.hang.cycle_count, 2);
    assert_int_equal(c.hang.nodes[c.hang.cycle[0]].rank, 0);
    assert_int_equal(c.hang.nodes[c.hang.cycle[1]].rank, 2);
    tti_hang_free(&c.hang);
}

/* Rank 2 has recorded nothing, rank 3 has opened the world before: the suspect is rank 2. */
static void rank_outside_the_world_is_named(void **state)
{
    (void)state;
    struct scene c;
    set_up(&c, RANKS);
    for (int r = 0; r < 2; r++) {
        run_op(&c, r, TUTTI_OP_INIT, -1, 0);
        c.snapshots[r].groups[0].alive = false;
        c.snapshots[r].groups[0].opening = true;
    }
    c.ranks[2].snapshot = NULL;
    assert_true(tti_hang_find(c.ranks, RANKS, &c.hang));
    assert_int_equal(c.hang.suspect_count, 1);
    assert_int_equal(c.hang.nodes[c.hang.suspects[0].node_index].rank, 2);
    assert_int_equal(c.hang.suspects[0].waiting, 2);
    tti_hang_free(&c.hang);
}

/* Ranks 2 and 3 open a world of three as its ranks 0 and 1: the third rank is unknown. */
static void rank_outside_another_world_is_not_guessed(void **state)
{
    (void)state;
    struct scene c;
    set_up(&c, RANKS);
    for (int r = 0; r < RANKS; r++) {
        struct tti_snapshot_group *g = &c.snapshots[r].groups[0];
        c.snapshots[r].group_count = r >= 2;
        *g = (struct tti_snapshot_group){
            .name = "w0@012345", .rank = r - 2, .size = 3, .world_rank = r - 2, .lanes = 1, .opening = true};
        if (r >= 2) {
            run_op(&c, r, TUTTI_OP_INIT, -1, 0);
        }
    }
    tti_hang_find(c.ranks, RANKS, &c.hang);
    assert_int_equal(c.hang.wait_count, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(c.hang.waits[i].missing_count, 0);
        assert_int_equal(c.hang.waits[i].unseen, 1);
    }
    tti_hang_free(&c.hang);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failed_calls_are_taken_from_their_tally),
        cmocka_unit_test(a_folder_that_cannot_be_written_is_no_reason_to_record_nothing),
        cmocka_unit_test(groups_without_a_place_are_counted),
        cmocka_unit_test(the_launcher_knows_the_rank),
        cmocka_unit_test(programs_of_a_rank_do_not_mix_and_counts_stay),
        cmocka_unit_test(full_lasts_as_long_as_groups_do),
        cmocka_unit_test(worlds_of_threads_have_names_of_their_own),
        cmocka_unit_test(worlds_of_several_stores_have_names_of_their_own),
        cmocka_unit_test(rank_in_an_ended_call_is_the_suspect),
        cmocka_unit_test(circles_are_found_by_any_wait),
        cmocka_unit_test(rank_outside_the_world_is_named),
        cmocka_unit_test(rank_outside_another_world_is_not_guessed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
