/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts the ranks of a round, continues the stopped ones, and kills those that hang. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults/support/round.h"
#include "time_limits.h"

#define CONTROL_US 300 /* between two checks of the ranks */

#define TEXT_OF(name, text) text,
const char *const point_names[] = {POINTS(TEXT_OF)};
const char *const disturbance_names[] = {DISTURBANCES(TEXT_OF)};
const char *const work_names[] = {WORKS(TEXT_OF)};
const char *const place_names[] = {PLACES(TEXT_OF)};

pid_t start_actor(void (*actor)(int32_t number), int32_t number)
{
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(LIMIT_S);
        actor(number);
    }
    return pid;
}

struct round_state *round_state_make(void)
{
    void *memory = mmap(NULL, sizeof(struct round_state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        abort();
    }
    return memory;
}

const char *no_core_files(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return "a sanitizer's memory is too large for a core file";
#else
    char pattern[256] = "";
    struct rlimit limit;
    FILE *file = fopen("/proc/sys/kernel/core_pattern", "r");
    if (!file) {
        return "there is no /proc/sys/kernel/core_pattern";
    }
    if (!fgets(pattern, sizeof(pattern), file)) {
        pattern[0] = '\0';
    }
    fclose(file);
    if (pattern[0] == '\0' || pattern[0] == '\n') {
        return "the system is set to write no core files (kernel.core_pattern)";
    }
    if (pattern[0] == '|' || strchr(pattern, '/')) {
        return "core files do not go to the working directory here (kernel.core_pattern)";
    }
    return getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_max != RLIM_INFINITY
               ? "core files are limited (ulimit -Hc)"
               : NULL;
#endif
}

static void start_ranks(struct round_state *s)
{
    const pid_t parent = getpid();
    for (int32_t rank = 0; rank < s->round.size; rank++) {
        s->seen[rank].at = -2;
        const pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent || !(s->round.missing == 0 || refuse(s->round.missing))) {
                _exit(1);
            }
            be_rank(s, rank);
        }
        s->pids[rank] = pid;
    }
}

/* Sleeps until the next check of the ranks. If this idle process wakes late, the machine delays the ranks as well. */
static void sleep_between(struct round_state *s)
{
    const bool first = atomic_load(&s->happened) && s->control_late_ns == 0;
    const int64_t begun = now_ns();
    pause_us(CONTROL_US);
    s->control_late_ns = first ? now_ns() - begun - (int64_t)CONTROL_US * 1000 : s->control_late_ns;
}

/* A stopped rank goes on: after a while, or when all other ranks have ended. A rank that has become another program is
 * killed. */
static void attend_victim(const struct round_state *s, bool alone)
{
    const struct round *r = &s->round;
    if (!atomic_load(&s->happened)) {
        return;
    }
    const bool paused = r->disturbance == DISTURBANCE_PAUSE && now_ns() > s->happened_ns + (int64_t)r->pause_us * 1000;
    if (paused || (r->disturbance == DISTURBANCE_STOP && alone)) {
        kill(s->pids[r->victim], SIGCONT);
    } else if (r->disturbance == DISTURBANCE_EXEC && alone) {
        kill(s->pids[r->victim], SIGKILL);
    }
}

bool run_round(struct round_state *s, const struct round *r)
{
    static unsigned rounds;
    memset(s, 0, sizeof(*s));
    s->round = *r;
    snprintf(s->store, sizeof(s->store), "unix:round-%d-%u", (int)getpid(), rounds++);
    fflush(NULL);
    start_ranks(s);
    const int64_t until = now_ns() + (int64_t)LIMIT_S * 1000000000;
    bool open[RANKS_MOST];
    memset(open, 1, sizeof(open));
    int32_t left = r->size;
    bool well = true;
    while (left > 0 && well) {
        attend_victim(s, left == 1 && open[r->victim]);
        for (int32_t i = 0; i < r->size; i++) {
            if (open[i] && waitpid(s->pids[i], NULL, WNOHANG) == s->pids[i]) {
                open[i] = false;
                left--;
            }
        }
        sleep_between(s);
        well = now_ns() < until;
    }
    for (int32_t i = 0; i < r->size; i++) {
        if (open[i]) {
            kill(s->pids[i], SIGKILL);
            waitpid(s->pids[i], NULL, 0);
        }
    }
    return well;
}

void print_round(const struct round *r, FILE *to)
{
    const bool placed = r->place != PLACE_TIME;
    fprintf(to, "%d ranks, %s, %s of rank %d %s", r->size, work_names[r->work], disturbance_names[r->disturbance],
            r->victim, point_names[r->point]);
    if (placed) {
        fprintf(to, " at %s number %d", place_names[r->place], r->occurrence);
    } else {
        fprintf(to, " after %d us", r->delay_us);
    }
    fprintf(to, " of call %d%s", r->calls + 1, r->missing ? ", on an older kernel" : "");
}
