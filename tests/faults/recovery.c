/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2,4 timeout=300 trees=release,debug,address,undefined */
/*
 * Ranks are killed before, inside and after each step of a recovery. The other ranks must agree on the same flags and
 * the same lost ranks, form one group of the same members, and get right results in it. A stopped rank is left out, and
 * its next call says so when it goes on. A new process takes a dead rank's place. Rank 0, the server of the job's
 * store, may be the victim, too.
 */
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults/support/round.h"
#include "time_limits.h"

/* When the victim dies: at this point, or `delay_us` after it has begun the step; while heap memory is made, at its
 * connection of this number. */
enum step { IN_ALLOC, IN_REGISTER, BEFORE_AGREE, IN_AGREE, BEFORE_SHRINK, IN_SHRINK, IN_WORK, NOWHERE };
static const char *const step_names[] = {"in alloc",      "in register", "before agree", "in agree",
                                         "before shrink", "in shrink",   "at work",      "nowhere"};

struct script {
    int32_t size;
    enum step steps[RANKS_MOST];
    int32_t delays_us[RANKS_MOST];
    bool stops; /* the victim stops instead; it goes on when the other ranks have finished without it */
    bool grows; /* a new process takes the place */
};

struct rank_report {
    _Atomic int32_t finished;
    uint64_t flags; /* of the first agreement */
    int32_t failed[RANKS_MOST];
    int32_t failed_count;
    int32_t members[RANKS_MOST];
    int32_t size; /* of the last group */
    char faults[600];
};

struct show {
    struct script script;
    char store[64];
    char token[TUTTI_TOKEN_BYTES];
    _Atomic int32_t token_there;
    struct rank_report reports[RANKS_MOST];
};

#define KEPT       5000 /* numbers */
#define REGISTERED 65536

static struct show *show;
static int32_t me;

__attribute__((format(printf, 1, 2))) static void wrong(const char *format, ...)
{
    char *text = show->reports[me].faults;
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, sizeof(show->reports[me].faults) - used, format, arguments);
    va_end(arguments);
}

static void *die_soon(void *unused)
{
    pause_us(show->script.delays_us[me]);
    raise(SIGKILL);
    return unused;
}

static void come_to(enum step step)
{
    const struct script *s = &show->script;
    pthread_t thread;
    if (s->steps[me] != step) {
        return;
    }
    if (s->stops) {
        raise(SIGSTOP);
    } else if (step == BEFORE_AGREE || step == BEFORE_SHRINK) {
        raise(SIGKILL);
    } else if (pthread_create(&thread, NULL, die_soon, NULL) == 0) {
        pthread_detach(thread);
    }
}

/* Whether the sum of something of all members is right. */
static tutti_status work(tutti_group *g, tutti_error *error)
{
    const int64_t count = 2;
    uint64_t value[2] = {1, UINT64_C(1) << tutti_group_global_rank(g, tutti_group_rank(g))};
    uint64_t expected = 0;
    DLTensor t = tutti_tensor_1d(value, &count, TUTTI_U64);
    for (int32_t r = 0; r < tutti_group_size(g); r++) {
        expected |= UINT64_C(1) << tutti_group_global_rank(g, r);
    }
    tutti_status status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.timeout_ms = LONG_MS, .error = error));
    if (status == TUTTI_OK && (value[0] != (uint64_t)tutti_group_size(g) || value[1] != expected)) {
        wrong("the sum is %llx, not %llx; ", (unsigned long long)value[1], (unsigned long long)expected);
    }
    return status;
}

/* Shrinks; false if this rank has been left out. */
static bool shrink(tutti_group **g)
{
    tutti_group *rest = NULL;
    tutti_error error;
    come_to(BEFORE_SHRINK);
    come_to(IN_SHRINK);
    const tutti_status status = tutti_group_shrink(*g, show->script.stops ? 8000 : LONG_MS, &rest, &error);
    const bool was_stopped = show->script.stops && show->script.steps[me] != NOWHERE;
    if (status != TUTTI_OK && !(was_stopped && status == TUTTI_REVOKED)) {
        wrong("shrink gives %s: %s; ", tutti_status_name(status), error.message);
    }
    if (was_stopped) {
        if (status == TUTTI_OK) {
            wrong("a rank that was stopped is a member; ");
        } else if (tutti_group_shrink(*g, LONG_MS, &rest, &error) != TUTTI_REVOKED) {
            wrong("a second shrink of an excluded rank is not REVOKED; ");
        }
    }
    if (tutti_barrier(*g, TUTTI_CALL(.timeout_ms = LONG_MS)) == TUTTI_OK) {
        wrong("the old group still works; ");
    }
    if (tutti_group_destroy(*g, &error) != TUTTI_OK) {
        wrong("destroy: %s; ", error.message);
    }
    *g = rest;
    return status == TUTTI_OK;
}

static void use(tutti_group *g, tutti_status status, tutti_error *error)
{
    if (status != TUTTI_OK || work(g, error) != TUTTI_OK) {
        wrong("the larger group: %s; ", error->message);
    }
}

static void die_now(void *unused)
{
    (void)unused;
    raise(SIGKILL);
}

/* The ranks connect to a store for this; the victim may die while it connects. */
static tutti_status make_shared(tutti_group *g, enum step step, void **memory)
{
    const struct script *s = &show->script;
    const bool dies = s->steps[me] == step && !s->stops;
    tutti_error error;
    if (dies) {
        place_arm(PLACE_CONNECT, s->delays_us[me], die_now, NULL);
    }
    const tutti_status status = step == IN_ALLOC ? tutti_alloc(g, KEPT * sizeof(int32_t), memory, &error)
                                                 : tutti_register(g, *memory, REGISTERED, &error);
    if (dies) {
        raise(SIGKILL);
    }
    if (status != TUTTI_OK && status != TUTTI_PEER_DEAD && status != TUTTI_REVOKED) {
        wrong("%s: %s: %s; ", step_names[step], tutti_status_name(status), error.message);
    }
    return status;
}

/* Memory of the heap; NULL if a rank has been lost. */
static int32_t *allocate(tutti_group *g)
{
    static _Alignas(4096) unsigned char own[REGISTERED];
    void *memory = own;
    make_shared(g, IN_REGISTER, &memory);
    memory = NULL;
    const tutti_status status = make_shared(g, IN_ALLOC, &memory);
    for (int32_t i = 0; status == TUTTI_OK && i < KEPT; i++) {
        ((int32_t *)memory)[i] = i ^ me;
    }
    return status == TUTTI_OK ? memory : NULL;
}

/* The memory outlives the group that it was allocated with. */
static void check_kept(tutti_group *g, int32_t *kept)
{
    tutti_error error;
    for (int32_t i = 0; kept && i < KEPT; i++) {
        if (kept[i] != (i ^ me)) {
            wrong("kept[%d] is %d; ", i, kept[i]);
            break;
        }
    }
    if (tutti_free(g, kept, &error) != TUTTI_OK) {
        wrong("free: %s; ", error.message);
    }
}

static tutti_group *grow(tutti_group *g)
{
    tutti_group *larger = NULL;
    tutti_error error;
    if (tutti_group_rank(g) == 0) {
        tutti_group_token(g, show->token, sizeof(show->token), &error);
        atomic_store(&show->token_there, 1);
    }
    tutti_barrier(g, TUTTI_CALL(.timeout_ms = LONG_MS)); /* behind it all have the token */
    const tutti_status status = tutti_group_grow(g, show->token, 1, LONG_MS, &larger, &error);
    use(larger, status, &error);
    tutti_group_destroy(g, NULL);
    return larger;
}

static void be_newcomer(int32_t number)
{
    tutti_group *g = NULL;
    tutti_error error;
    me = number;
    while (!atomic_load(&show->token_there)) {
        pause_us(1000);
    }
    const tutti_status status = tutti_group_join(show->token, TUTTI_CONFIG(.timeout_ms = LONG_MS), &g, &error);
    use(g, status, &error);
    if (status == TUTTI_OK && tutti_group_rank(g) != tutti_group_size(g) - 1) {
        wrong("the newcomer is rank %d of %d; ", tutti_group_rank(g), tutti_group_size(g));
    }
    tutti_finalize(NULL);
    atomic_store(&show->reports[number].finished, 1);
    _exit(0);
}

static void recover(tutti_group *g)
{
    struct rank_report *own = &show->reports[me];
    tutti_error error;
    int32_t *const kept = allocate(g);
    own->flags = ~(UINT64_C(1) << me);
    come_to(BEFORE_AGREE);
    come_to(IN_AGREE);
    if (tutti_group_agree(g, &own->flags, own->failed, RANKS_MOST, &own->failed_count, LONG_MS, &error) != TUTTI_OK) {
        wrong("agree gives %s; ", error.message);
    }
    for (uint64_t well = 0; well == 0;) {
        if (!shrink(&g)) {
            break;
        }
        int32_t count = 0;
        come_to(IN_WORK);
        const tutti_status status = work(g, &error);
        well = status == TUTTI_OK;
        if (status != TUTTI_OK && status != TUTTI_PEER_DEAD && status != TUTTI_REVOKED) {
            wrong("work gives %s; ", error.message);
        }
        if (tutti_group_agree(g, &well, NULL, 0, &count, LONG_MS, &error) != TUTTI_OK) {
            wrong("the second agree gives %s; ", error.message);
            break;
        }
    }
    own->size = g ? tutti_group_size(g) : 0;
    if (g) {
        check_kept(g, kept);
    }
    for (int32_t r = 0; r < own->size; r++) {
        own->members[r] = tutti_group_global_rank(g, r);
    }
    g = show->script.grows ? grow(g) : g;
    tutti_group_destroy(g, NULL);
}

static void be_actor(int32_t rank)
{
    me = rank;
    tutti_group *g = NULL;
    tutti_error error;
    const int descriptors = entries(DESCRIPTORS);
    if (tutti_init(TUTTI_CONFIG(.backend = "shm", .rank = rank, .world_size = show->script.size, .store = show->store,
                                .timeout_ms = LONG_MS),
                   &g, &error) != TUTTI_OK ||
        work(g, &error) != TUTTI_OK) {
        wrong("%s; ", error.message);
    } else {
        recover(g);
    }
    if (show->script.steps[rank] != NOWHERE && !show->script.stops) {
        for (;;) { /* it finished before the signal killed it */
            pause();
        }
    }
    tutti_finalize(NULL);
    /* each served store leaves an eventfd until the process ends; a store that a stopped rank still uses leaves more */
    const int most = descriptors + 8;
    if (!show->script.stops && (settles(DESCRIPTORS, most) > most || mappings() != 0)) {
        wrong("%d descriptors, %d before, and %d segments; ", entries(DESCRIPTORS), descriptors, mappings());
    }
    atomic_store(&show->reports[rank].finished, 1);
    _exit(0);
}

static bool survives(const struct script *s, int32_t rank)
{
    return s->steps[rank] == NOWHERE;
}

static int check_rank(const struct script *s, int32_t rank, int32_t first)
{
    const struct rank_report *r = &show->reports[rank];
    const struct rank_report *other = &show->reports[first];
    int failures = 0;
    if (!atomic_load(&r->finished) || r->faults[0]) {
        fprintf(stderr, "rank %d: %s%s\n", rank, r->faults, atomic_load(&r->finished) ? "" : "did not finish");
        return 1;
    }
    if (!survives(s, rank)) {
        return 0;
    }
    failures += r->flags != other->flags || r->failed_count != other->failed_count || r->size != other->size ||
                memcmp(r->failed, other->failed, sizeof(r->failed)) != 0 ||
                memcmp(r->members, other->members, sizeof(r->members)) != 0;
    for (int32_t i = 0; i < s->size; i++) {
        bool member = false;
        bool failed = false;
        for (int32_t k = 0; k < r->size; k++) {
            member = member || r->members[k] == i;
        }
        for (int32_t k = 0; k < r->failed_count; k++) {
            failed = failed || r->failed[k] == i;
        }
        failures += survives(s, i) && (!member || failed || (r->flags >> i & 1));
        failures += s->steps[i] <= BEFORE_AGREE && !s->stops && (!failed || member);
        failures += s->steps[i] == BEFORE_SHRINK && member;
    }
    if (failures) {
        fprintf(stderr, "rank %d: flags %llx, %d lost (%d ...), %d members (%d, ...); rank %d: %llx, %d, %d\n", rank,
                (unsigned long long)r->flags, r->failed_count, r->failed[0], r->size, r->members[0], first,
                (unsigned long long)other->flags, other->failed_count, other->size);
    }
    return failures;
}

/* Waits for the ranks that end by themselves. Ranks that remain are killed, or continued if they are stopped. */
static void wait_for_all(const struct script *s, const pid_t *pids)
{
    const int64_t until = now_ns() + (int64_t)LIMIT_S * 1000000000;
    bool open[RANKS_MOST] = {false};
    int32_t left = s->size;
    int32_t survivors = 0;
    for (int32_t i = 0; i < s->size; i++) {
        open[i] = true;
        survivors += survives(s, i);
    }
    while (left > 0 && now_ns() < until) {
        for (int32_t i = 0; i < s->size; i++) {
            if (open[i] && waitpid(pids[i], NULL, WNOHANG) == pids[i]) {
                open[i] = false;
                left--;
                survivors -= survives(s, i);
            } else if (open[i] && survivors == 0) {
                kill(pids[i], s->stops ? SIGCONT : SIGKILL);
            }
        }
        pause_us(1000);
    }
    for (int32_t i = 0; i < s->size; i++) {
        if (open[i]) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
        }
    }
}

static pid_t start(int32_t number, void (*actor)(int32_t number))
{
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
        actor(number);
    }
    return pid;
}

static int check_newcomer(const struct script *s, pid_t pid)
{
    const struct rank_report *r = &show->reports[s->size];
    const int64_t until = now_ns() + (int64_t)LIMIT_S * 1000000000;
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (now_ns() > until || !atomic_load(&show->token_there)) {
            kill(pid, SIGKILL);
        }
        pause_us(1000);
    }
    if (!atomic_load(&r->finished) || r->faults[0]) {
        fprintf(stderr, "the newcomer: %s\n", r->faults[0] ? r->faults : "did not finish");
        return 1;
    }
    return 0;
}

static int play(const struct script *s)
{
    static unsigned plays;
    pid_t pids[RANKS_MOST];
    int failures = 0;
    int32_t first = 0;
    memset(show, 0, sizeof(*show));
    show->script = *s;
    snprintf(show->store, sizeof(show->store), "unix:show-%d-%u", (int)getpid(), plays++);
    fflush(NULL);
    for (int32_t rank = 0; rank < s->size; rank++) {
        pids[rank] = start(rank, be_actor);
    }
    const pid_t newcomer = s->grows ? start(s->size, be_newcomer) : -1;
    wait_for_all(s, pids);
    failures += newcomer > 0 ? check_newcomer(s, newcomer) : 0;
    while (!survives(s, first)) {
        first++;
    }
    for (int32_t rank = 0; rank < s->size; rank++) {
        if (survives(s, rank) || s->stops) {
            failures += check_rank(s, rank, first);
        }
    }
    for (int32_t rank = 0; rank < s->size && failures; rank++) {
        fprintf(stderr, "    rank %d %s %s after %d us\n", rank, s->stops ? "stops" : "dies",
                step_names[s->steps[rank]], s->delays_us[rank]);
    }
    return failures;
}

static struct script script_of(int32_t size)
{
    struct script s = {.size = size};
    for (int32_t i = 0; i < RANKS_MOST; i++) {
        s.steps[i] = NOWHERE;
    }
    return s;
}

int main(int argc, char **argv)
{
    const int32_t size = argc > 1 ? atoi(argv[1]) : 4;
    const int32_t delays[] = {0, 200, 1000, 3000};
    int failures = 0;
    show = mmap(NULL, sizeof(*show), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (show == MAP_FAILED) {
        return 1;
    }
    struct script s = script_of(size);
    failures += play(&s); /* no rank dies: the shrink itself revokes the group */
    for (enum step step = IN_ALLOC; step < NOWHERE; step++) {
        for (int32_t i = 0; i < 4; i++) {
            const bool at_once = step == BEFORE_AGREE || step == BEFORE_SHRINK;
            if (at_once && i > 1) {
                continue;
            }
            s = script_of(size);
            s.steps[i % size] = step;
            s.delays_us[i % size] = step <= IN_REGISTER ? 1 + i / 2 : delays[i];
            failures += play(&s);
        }
    }
    for (int32_t i = 0; i < 4 && size > 2; i++) { /* two, and all but one */
        s = script_of(size);
        s.steps[i] = IN_SHRINK;
        s.delays_us[i] = delays[i];
        s.steps[(i + 1) % size] = i % 2 ? BEFORE_AGREE : IN_SHRINK;
        failures += play(&s);
        for (int32_t r = 0; r < size - 1; r++) {
            s.steps[(i + r) % size] = i == 0 ? BEFORE_AGREE : IN_SHRINK;
            s.delays_us[(i + r) % size] = delays[(i + r) % 4];
        }
        s.steps[(i + size - 1) % size] = NOWHERE;
        failures += play(&s);
    }
    s = script_of(size);
    s.steps[0] = BEFORE_AGREE;
    s.grows = true;
    failures += play(&s);
    s = script_of(size);
    s.stops = true;
    s.steps[size - 1] = BEFORE_SHRINK;
    failures += play(&s);
    return failures != 0;
}
