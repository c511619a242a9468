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

static struct stage *stage;
static _Atomic bool noted;
static struct rlimit descriptors;

static void record_time(void)
{
    stage->happened_ns = now_ns();
    atomic_store(&stage->happened, 1);
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

static void suffer_fate(void)
{
    record_time();
    switch (stage->round.fate) {
    case FATE_SEGV:
        crash(0);
        break;
    case FATE_DUMP:
        crash(RLIM_INFINITY);
        break;
    case FATE_QUICK_EXIT:
        _exit(7);
    case FATE_EXIT:
        exit(7);
    case FATE_EXEC:
        execl("/bin/sleep", "sleep", "1000", (char *)NULL);
        break;
    case FATE_STOP:
    case FATE_PAUSE:
        raise(SIGSTOP);
        return;
    case FATE_MAIN_EXIT:
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
    const enum fate fate = stage->round.fate;
    return fate == FATE_EXIT || fate == FATE_MAIN_EXIT || (fate == FATE_EXEC && is_monitor());
}

void victim_await(void)
{
    while (!atomic_load(&noted)) {
        pause_us(50);
    }
    suffer_fate();
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
        suffer_fate();
    }
}

static void happen_at_place(void *unused)
{
    (void)unused;
    atomic_store(&stage->reached, 1);
    happen();
}

static void *happen_later(void *unused)
{
    (void)unused;
    pause_us(stage->round.delay_us);
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

void victim_prepare(struct stage *s)
{
    const struct round *r = &s->round;
    stage = s;
    if (r->resident > 0) {
        static void *memory; /* to the end */
        memory = malloc(r->resident);
        memset(memory, 1, r->resident);
    }
    if (r->fate == FATE_EXIT || r->fate == FATE_EXEC) {
        start_thread(await_in_thread);
    } else if (r->fate == FATE_STORM) {
        set_storm(STORM_US);
    }
    if (r->fate == FATE_STORM || r->fate == FATE_CALLER_EXIT) {
        record_time();
    }
}

void victim_begin(struct stage *s)
{
    const struct round *r = &s->round;
    const bool in_time = r->place == PLACE_TIME;
    if (r->fate == FATE_STORM || r->fate == FATE_CALLER_EXIT) {
        return; /* all the time */
    }
    if (r->fate == FATE_NO_DESCRIPTORS) {
        record_time();
        if (!leave_descriptors(r->occurrence, &descriptors)) {
            abort();
        }
    } else if (r->fate == FATE_NO_MEMORY) {
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

void victim_end(struct stage *s)
{
    const struct round *r = &s->round;
    place_disarm();
    if (r->fate == FATE_NO_DESCRIPTORS) {
        setrlimit(RLIMIT_NOFILE, &descriptors);
    }
    if (r->place != PLACE_TIME && !is_resource_error(r->fate) && !atomic_load(&s->reached)) {
        happen(); /* the call reached the place less often */
    }
}

void victim_calm(const struct stage *s)
{
    if (s->round.fate == FATE_STORM) {
        set_storm(0);
    }
}
