/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happens to the victim. The thread that reaches the place does most of it to its own process. exit() and the end
 * of the main thread need a thread that waits for its order, since no program can call them from within the library.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "descriptors.h"
#include "faults/support/victim.h"

#define STORM_US 100

static struct round_state *state;
static _Atomic bool noted;
static struct rlimit descriptors;

static void record_time(void)
{
    state->happened_ns = now_ns();
    atomic_store(&state->happened, 1);
}

static void crash(rlim_t core)
{
    const struct rlimit limit = {.rlim_cur = core, .rlim_max = core};
    setrlimit(RLIMIT_CORE, &limit);
    signal(SIGSEGV, SIG_DFL);
    /* signals are blocked while a thread is started: a signal that is sent would stay pending; the signal of a fault
     * does not */
    sigset_t fault;
    sigemptyset(&fault);
    sigaddset(&fault, SIGSEGV);
    pthread_sigmask(SIG_UNBLOCK, &fault, NULL);
    kill(getpid(), SIGSEGV);
}

static void suffer_disturbance(void)
{
    record_time();
    switch (state->round.disturbance) {
    case DISTURBANCE_SEGV:
        crash(0);
        break;
    case DISTURBANCE_DUMP:
        crash(RLIM_INFINITY);
        break;
    case DISTURBANCE_QUICK_EXIT:
        _exit(7);
    case DISTURBANCE_EXIT:
        exit(7);
    case DISTURBANCE_EXEC:
        execl("/bin/sleep", "sleep", "1000", (char *)NULL);
        break;
    case DISTURBANCE_STOP:
    case DISTURBANCE_PAUSE:
        raise(SIGSTOP);
        return;
    case DISTURBANCE_MAIN_EXIT:
        pthread_exit(NULL);
    default:
        kill(getpid(), SIGKILL);
    }
    for (;;) {
        pause();
    }
}

/* The library's thread that owns the life word, if a place is reached there. This thread must not call exec: the kernel
 * would first give it the number of the main thread, and then not find its own number in the life word. */
static bool is_monitor(void)
{
    char name[16] = "";
    return prctl(PR_GET_NAME, name) == 0 && strcmp(name, "tutti-monitor") == 0;
}

static bool is_left_to_another(void)
{
    const enum disturbance disturbance = state->round.disturbance;
    return disturbance == DISTURBANCE_EXIT || disturbance == DISTURBANCE_MAIN_EXIT ||
           (disturbance == DISTURBANCE_EXEC && is_monitor());
}

void victim_await(void)
{
    while (!atomic_load(&noted)) {
        pause_us(50);
    }
    suffer_disturbance();
}

static void *await_in_thread(void *unused)
{
    (void)unused;
    victim_await();
    return NULL;
}

static void happen(void)
{
    if (is_left_to_another()) {
        atomic_store(&noted, true);
    } else {
        suffer_disturbance();
    }
}

static void happen_at_place(void *unused)
{
    (void)unused;
    atomic_store(&state->reached, 1);
    happen();
}

static void *happen_later(void *unused)
{
    (void)unused;
    pause_us(state->round.delay_us);
    happen();
    return NULL;
}

static void start_thread(void *(*function)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, NULL) != 0) {
        abort();
    }
    pthread_detach(thread);
}

static void interrupt(int number)
{
    (void)number;
}

/* Every system call that can end with EINTR ends with it. */
static void set_storm(long us)
{
    struct sigaction action = {.sa_handler = us > 0 ? interrupt : SIG_IGN};
    const struct itimerval every = {.it_interval.tv_usec = us, .it_value.tv_usec = us};
    if (sigaction(SIGALRM, &action, NULL) != 0 || setitimer(ITIMER_REAL, &every, NULL) != 0) {
        abort();
    }
}

void victim_prepare(struct round_state *s)
{
    const struct round *r = &s->round;
    state = s;
    if (r->resident > 0) {
        static void *memory; /* to the end */
        memory = malloc(r->resident);
        memset(memory, 1, r->resident);
    }
    if (r->disturbance == DISTURBANCE_EXIT || r->disturbance == DISTURBANCE_EXEC) {
        start_thread(await_in_thread);
    } else if (r->disturbance == DISTURBANCE_STORM) {
        set_storm(STORM_US);
    }
    if (r->disturbance == DISTURBANCE_STORM || r->disturbance == DISTURBANCE_CALLER_EXIT) {
        record_time();
    }
}

void victim_begin(struct round_state *s)
{
    const struct round *r = &s->round;
    const bool in_time = r->place == PLACE_TIME;
    if (r->disturbance == DISTURBANCE_STORM || r->disturbance == DISTURBANCE_CALLER_EXIT) {
        return; /* all the time */
    }
    if (r->disturbance == DISTURBANCE_NO_DESCRIPTORS) {
        record_time();
        if (!leave_descriptors(r->occurrence, &descriptors)) {
            abort();
        }
    } else if (r->disturbance == DISTURBANCE_NO_MEMORY) {
        record_time();
        place_fail(r->place, r->occurrence);
    } else if (r->point == POINT_BETWEEN || r->point == POINT_BEFORE_INIT || r->point == POINT_BEFORE_DESTROY) {
        happen_later(NULL);
    } else if (in_time) {
        start_thread(happen_later);
    } else {
        place_arm(r->place, r->occurrence, happen_at_place, NULL);
    }
}

void victim_end(struct round_state *s)
{
    const struct round *r = &s->round;
    place_disarm();
    if (r->disturbance == DISTURBANCE_NO_DESCRIPTORS) {
        setrlimit(RLIMIT_NOFILE, &descriptors);
    }
    if (r->place != PLACE_TIME && !is_resource_error(r->disturbance) && !atomic_load(&s->reached)) {
        happen(); /* the call reached the place less often */
    }
}

void victim_calm(const struct round_state *s)
{
    if (s->round.disturbance == DISTURBANCE_STORM) {
        set_storm(0);
    }
}
