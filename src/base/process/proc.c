/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * /proc/PID/stat has the state of a process, its start time, which separates it from a later process with the same pid,
 * and at its end the exit code. Only /proc/PID/status shows that a process is writing a core dump.
 *
 * Pids of another namespace mean nothing here, so such a process is UNKNOWN. The same holds if /proc shows another
 * namespace than this process's own, as after `unshare --pid` without a new /proc. If that process has handed over a
 * pidfd, the pidfd says whether it has ended. Without /proc, kill(pid, 0) says whether the pid is in use.
 */
#include "base/process/proc.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/host/cpu_ticks.h"
#include "base/process/pidfds.h"
#include "base/process/proc_stat.h"

/* Whether /proc knows this process by the number that the process itself has: else it shows another namespace. */
static bool proc_is_own(void)
{
    char number[16];
    const ssize_t length = readlink("/proc/self", number, sizeof(number) - 1);
    number[length > 0 ? length : 0] = '\0';
    return length > 0 && strtol(number, NULL, 10) == (long)getpid();
}

/* That of the thread: the link of the process is gone once its main thread has ended. */
static uint64_t own_space(void)
{
    struct stat st;
    return proc_is_own() && stat("/proc/thread-self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* Whether the other process's pid is valid here: both are in one namespace, and /proc shows that one. */
static bool is_visible(const struct tti_proc_id *id)
{
    return id->space != 0 && id->space == own_space() && id->pid != 0 && id->pid <= INT32_MAX;
}

int tti_proc_descriptor(const struct tti_proc_id *id)
{
    return is_visible(id) ? (int)syscall(SYS_pidfd_open, (pid_t)id->pid, 0) : tti_pidfd_of(id->instance);
}

/* ---- one process ------------------------------------------------------------------------------------------------- */

static _Atomic uint64_t instance;

static void forget_instance(void)
{
    /* relaxed: the child has one thread yet */
    atomic_store_explicit(&instance, 0, memory_order_relaxed);
}

static void protect_instance(void)
{
    pthread_atfork(NULL, NULL, forget_instance);
}

uint64_t tti_proc_instance(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, protect_instance);
    /* relaxed: a number that stands for itself */
    uint64_t known = atomic_load_explicit(&instance, memory_order_relaxed);
    if (known != 0) {
        return known;
    }
    uint64_t fresh = 0;
    if (getrandom(&fresh, sizeof(fresh), 0) != sizeof(fresh)) { /* unique is enough */
        fresh = tti_ticks() << 16 ^ (uint64_t)getpid() ^ (uint64_t)(uintptr_t)&instance;
    }
    fresh |= 1;
    return atomic_compare_exchange_strong_explicit(&instance, &known, fresh, memory_order_relaxed, memory_order_relaxed)
               ? fresh
               : known;
}

void tti_proc_self(struct tti_proc_id *id)
{
    struct tti_proc_stat s;
    *id = (struct tti_proc_id){.pid = (uint32_t)getpid(), .space = own_space(), .instance = tti_proc_instance()};
    id->started = id->space != 0 && tti_proc_stat(getpid(), &s) ? s.started : 0;
}

bool tti_proc_same(const struct tti_proc_id *a, const struct tti_proc_id *b)
{
    if (a->instance != 0 && b->instance != 0) {
        return a->instance == b->instance;
    }
    return a->pid == b->pid && a->started == b->started && a->space == b->space && a->space != 0;
}

static enum tti_proc_state state_of(const struct tti_proc_stat *s)
{
    switch (s->state) {
    case 'S':
    case 'I':
        return TTI_PROC_SLEEPING;
    case 'D':
        return TTI_PROC_DISK;
    case 'T':
        return TTI_PROC_STOPPED;
    case 't':
        return TTI_PROC_TRACED;
    case 'Z': /* or only its first thread has ended */
        return s->threads > 1 ? TTI_PROC_RUNNING : TTI_PROC_ZOMBIE;
    case 'X':
        return TTI_PROC_GONE;
    default:
        return TTI_PROC_RUNNING;
    }
}

struct tti_proc tti_proc_query(const struct tti_proc_id *id)
{
    struct tti_proc p = {.state = TTI_PROC_UNKNOWN};
    struct tti_proc_stat s;
    if (!is_visible(id)) {
        p.state = tti_pidfd_has_ended(id->instance) ? TTI_PROC_GONE : TTI_PROC_UNKNOWN;
        return p;
    }
    if (!tti_proc_stat((pid_t)id->pid, &s) || s.started == 0) {
        p.state = kill((pid_t)id->pid, 0) != 0 && errno == ESRCH ? TTI_PROC_GONE : TTI_PROC_UNKNOWN;
        return p;
    }
    if (id->started != 0 && s.started != id->started) { /* the pid belongs to another process now */
        p.state = TTI_PROC_GONE;
        return p;
    }
    p.state = state_of(&s);
    p.code = p.state == TTI_PROC_STOPPED || p.state == TTI_PROC_TRACED ? 0 : s.code; /* of the stop */
    if (p.state != TTI_PROC_ZOMBIE && p.state != TTI_PROC_GONE && tti_proc_is_dumping((pid_t)id->pid)) {
        p.state = TTI_PROC_DUMPING;
    }
    return p;
}

const char *tti_proc_state_name(enum tti_proc_state state)
{
    static const char *const names[] = {
        [TTI_PROC_UNKNOWN] = "state unknown", [TTI_PROC_RUNNING] = "running",      [TTI_PROC_SLEEPING] = "sleeping",
        [TTI_PROC_DISK] = "in disk sleep",    [TTI_PROC_STOPPED] = "stopped",      [TTI_PROC_TRACED] = "in a debugger",
        [TTI_PROC_DUMPING] = "dumping core",  [TTI_PROC_ZOMBIE] = "ended, zombie", [TTI_PROC_GONE] = "gone"};
    return names[state];
}

const char *tti_signal_name(int number)
{
    static const struct {
        int number;
        const char *name;
    } names[] = {{SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},
                 {SIGTRAP, "SIGTRAP"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
                 {SIGKILL, "SIGKILL"}, {SIGUSR1, "SIGUSR1"}, {SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"},
                 {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"}, {SIGXCPU, "SIGXCPU"},
                 {SIGXFSZ, "SIGXFSZ"}, {SIGSYS, "SIGSYS"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].number == number) {
            return names[i].name;
        }
    }
    return NULL;
}

void tti_proc_text(const struct tti_proc_id *id, char *text, size_t capacity)
{
    const uint64_t here = own_space();
    const bool elsewhere = id->space != 0 && here != 0 && id->space != here;
    snprintf(text, capacity, "process %u%s", id->pid, elsewhere ? " of another PID namespace" : "");
}

static void signal_text(int number, char *text, size_t capacity)
{
    const char *name = tti_signal_name(number);
    snprintf(text, capacity, name ? "signal %d (%s)" : "signal %d", number, name);
}

tutti_status tti_proc_describe_end(int rank, const struct tti_proc_id *id, const struct tti_proc *process, char *text,
                                   size_t capacity)
{
    char signal[40];
    char name[TTI_PROC_TEXT];
    tti_proc_text(id, name, sizeof(name));
    if (process->state == TTI_PROC_DUMPING) {
        if (WIFSIGNALED(process->code)) {
            signal_text(WTERMSIG(process->code), signal, sizeof(signal));
        }
        snprintf(text, capacity, "rank %d (%s) has crashed and is writing a core dump%s%s", rank, name,
                 WIFSIGNALED(process->code) ? ": " : "", WIFSIGNALED(process->code) ? signal : "");
    } else if (process->code != 0 && WIFSIGNALED(process->code)) {
        signal_text(WTERMSIG(process->code), signal, sizeof(signal));
        snprintf(text, capacity, "rank %d (%s) was killed by %s%s", rank, name, signal,
                 WCOREDUMP(process->code) ? ", with a core dump" : "");
    } else if (process->code != 0 && WIFEXITED(process->code)) {
        snprintf(text, capacity, "rank %d (%s) has ended at once, with exit status %d", rank, name,
                 WEXITSTATUS(process->code));
    } else if (process->state == TTI_PROC_ZOMBIE || process->state == TTI_PROC_GONE ||
               process->state == TTI_PROC_UNKNOWN) {
        snprintf(text, capacity, "rank %d (%s) has died", rank, name);
    } else { /* exec, or _exit(0) a moment ago */
        snprintf(text, capacity, "rank %d (%s) has died, or begun another program", rank, name);
    }
    return process->state == TTI_PROC_DUMPING ? TUTTI_PEER_CRASHING : TUTTI_PEER_DEAD;
}
