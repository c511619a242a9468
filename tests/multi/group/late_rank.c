/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: seconds=35 ranks=3,4 timeout=120 trees=release,debug,address,undefined */
/*
 * One rank does not call. The rank whose deadline passes first and the ranks that read its record say the same
 * sentence: what waited for how long, and which rank has not arrived. If no group can be made, the suspect is a rank of
 * the parent.
 */
#include <stdbool.h>

#include "multi/expect.h"
#include "time_limits.h"

enum { TEXT = 440, RANKS = 4, WAIT_MS = 8000, SHORT_MS = 500 };

/* Leaves out the state of the other rank's process, which changes from poll to poll, and the time, since two deadlines
 * may pass at once. */
static void strip(char *text)
{
    char *to = text;
    bool inside = false;
    for (const char *from = text; *from; from++) {
        inside = inside || strncmp(from, "(process", 8) == 0 || strncmp(from, "(last call", 10) == 0 ||
                 strncmp(from, "(no call", 8) == 0;
        if (!inside) {
            *to++ = *from;
        }
        inside = inside && *from != ')';
    }
    *to = '\0';
    char *time = strstr(text, "waited ");
    char *end = time ? strstr(time, " ms") : NULL;
    if (end) {
        memmove(time + strlen("waited"), end, strlen(end) + 1);
    }
}

static void judge(const tutti_error *own, char noted[][TEXT], int32_t rank, int32_t late, bool engine)
{
    char name[24];
    snprintf(name, sizeof(name), "rank %d", late);
    EXPECT(strstr(own->message, name) != NULL && own->suspect == late);
    EXPECT(!strstr(own->message, "suspected") && !strstr(own->message, "laggard"));
    for (int32_t r = 0; engine && r < late; r++) {
        EXPECT(strstr(noted[r], "all_reduce (call 1, lane 0) waited ms; not arrived: rank ") != NULL);
        if (strcmp(noted[r], noted[rank]) != 0) {
            fprintf(stderr, "rank %d: %s\nrank %d: %s\n", r, noted[r], rank, noted[rank]);
            failures++;
        }
    }
}

/* In `g`, whose messages are compared in `base`. */
static void late_comer(tutti_group *g, tutti_group *base, bool engine)
{
    char own[TEXT] = "";
    char noted[RANKS][TEXT];
    const int64_t one = 1;
    const int64_t length = TEXT;
    const int64_t whole = (int64_t)tutti_group_size(g) * TEXT;
    const int32_t rank = tutti_group_rank(g);
    const int32_t late = tutti_group_size(g) - 1;
    int32_t value = 1;
    tutti_error e;
    tutti_error lost;
    DLTensor v = tutti_tensor_1d(&value, &one, TUTTI_I32);
    DLTensor line = tutti_tensor_1d(own, &length, TUTTI_U8);
    DLTensor all = tutti_tensor_1d(noted, &whole, TUTTI_U8);
    if (rank != late) {
        const tutti_status status =
            tutti_all_reduce(g, &v, &v, TUTTI_SUM, TUTTI_CALL(.timeout_ms = WAIT_MS, .error = &e));
        EXPECT(engine ? status == TUTTI_TIMEOUT : status == TUTTI_TIMEOUT || status == TUTTI_REVOKED);
        snprintf(own, sizeof(own), "%s", e.message);
        strip(own);
    }
    if (tutti_all_gather(base, &line, &all, 0, TUTTI_CALL(.timeout_ms = LONG_MS, .error = &lost)) != TUTTI_OK) {
        fprintf(stderr, "the messages are not exchanged: %s\n", lost.message);
        EXPECT(false);
    } else if (rank != late) {
        judge(&e, noted, rank, late, engine);
    }
}

/* Ranks 1, 2, ... of the world, the last one first, and that one does not call: the suspect is its rank in the
 * world. */
static void late_member(tutti_group *world)
{
    const int32_t size = tutti_group_size(world);
    const int32_t late = size - 1;
    int32_t members[RANKS];
    tutti_group *g = NULL;
    tutti_error e;
    char rank_of[80];
    for (int32_t i = 0; i < late; i++) {
        members[i] = late - i;
    }
    snprintf(rank_of, sizeof(rank_of), "(counted in the new group, whose rank 0 is rank %d of the parent)", late);
    if (tutti_group_rank(world) != 0 && tutti_group_rank(world) != late) {
        const tutti_config config = {.size = sizeof(config), .timeout_ms = SHORT_MS};
        EXPECT(tutti_group_create(world, members, late, &config, &g, &e) == TUTTI_TIMEOUT && e.suspect == late &&
               strstr(e.message, "missing: rank 0") && strstr(e.message, rank_of));
    }
    EXPECT_OK(tutti_barrier(world, TUTTI_CALL(.error = &err)));
}

/* Only the last rank asks for another number of lanes. By their keys the ranks are counted backwards. */
static void other_lanes(tutti_group *world)
{
    const int32_t rank = tutti_group_rank(world);
    const int32_t last = tutti_group_size(world) - 1;
    tutti_group *g = NULL;
    tutti_error e;
    char rank_of[80];
    EXPECT(tutti_group_split(world, 0, -rank, TUTTI_CONFIG(.lanes = rank == last ? 2 : 1), &g, &e) == TUTTI_MISMATCH);
    snprintf(rank_of, sizeof(rank_of), "(counted in the new group, whose rank %d is rank %d of the parent)",
             last - e.suspect, e.suspect);
    EXPECT(e.suspect >= 0 && e.suspect <= last && strstr(e.message, rank_of));
    EXPECT_OK(tutti_barrier(world, TUTTI_CALL(.error = &err)));
}

static tutti_status thread(tutti_group *base, void *user)
{
    (void)user;
    static const int32_t all[] = {0, 1, 2};
    tutti_error e;
    tutti_group *g = NULL;
    tutti_status status = tutti_group_create(base, all, 3, NULL, &g, &e);
    if (status == TUTTI_OK) {
        late_comer(g, base, true);
    }
    return status;
}

int main(void)
{
    static const char *const backends[] = {"shm", "hier", "gloo"};
    static const int32_t all[RANKS] = {0, 1, 2, 3};
    tutti_group *world = NULL;
    EXPECT_OK(tutti_run_threads(3, thread, NULL, &err));
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "shm", .timeout_ms = LONG_MS), &world, &err));
    if (world) {
        late_member(world);
        other_lanes(world);
    }
    for (size_t i = 0; world && i < sizeof(backends) / sizeof(backends[0]); i++) {
        tutti_group *g = NULL;
        const tutti_status status =
            tutti_group_create(world, all, tutti_group_size(world), TUTTI_CONFIG(.backend = backends[i]), &g, &err);
        if (status == TUTTI_NOT_AVAILABLE && i > 0) {
            continue; /* built without it */
        }
        EXPECT(status == TUTTI_OK);
        if (status == TUTTI_OK) {
            late_comer(g, world, i == 0);
        }
    }
    EXPECT_OK(tutti_finalize(&err));
    return failures != 0;
}
