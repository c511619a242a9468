/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of another process on this host, from /proc or a pidfd. */
#ifndef TTI_BASE_PROCESS_PROC_H
#define TTI_BASE_PROCESS_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/status.h>

/* Identifies one process: the kernel reuses pids, and a pid counts in one namespace only. */
struct tti_proc_id {
    uint32_t pid;
    uint32_t unused;
    uint64_t started;  /* in the kernel's ticks since the boot; 0 = unknown          */
    uint64_t space;    /* inode of its namespace of process numbers; 0 = unknown     */
    uint64_t instance; /* tti_proc_instance; 0 = unknown */
};

/* From STOPPED on it does not run. */
enum tti_proc_state {
    TTI_PROC_UNKNOWN, /* cannot be seen from here */
    TTI_PROC_RUNNING,
    TTI_PROC_SLEEPING,
    TTI_PROC_DISK, /* uninterruptible sleep */
    TTI_PROC_STOPPED,
    TTI_PROC_TRACED,  /* stopped by a debugger */
    TTI_PROC_DUMPING, /* from here on it never runs again */
    TTI_PROC_ZOMBIE,  /* has ended; its parent has not called wait yet */
    TTI_PROC_GONE
};

struct tti_proc {
    enum tti_proc_state state;
    int code; /* as waitpid gives it, once it ends or crashes; 0 also if it is unknown */
};

void tti_proc_self(struct tti_proc_id *id);

/* A random number, unique for each process: ranks with the same one are threads of one process. Pids do not show that,
 * since each namespace has its own 1. */
uint64_t tti_proc_instance(void);

/* A pidfd. -1: the process has ended, or it is not visible and has not handed over a pidfd (pidfds.h). */
int tti_proc_descriptor(const struct tti_proc_id *id);

/* The state of a process now. Cost: about ten system calls, none of which waits for it. */
struct tti_proc tti_proc_query(const struct tti_proc_id *id);

static inline bool tti_proc_has_ended(enum tti_proc_state state)
{
    return state >= TTI_PROC_DUMPING;
}

bool tti_proc_same(const struct tti_proc_id *a, const struct tti_proc_id *b);

/* "running", "stopped", ... */
const char *tti_proc_state_name(enum tti_proc_state state);

/* "process 4711", "process 1 of another PID namespace". */
#define TTI_PROC_TEXT 48
void tti_proc_text(const struct tti_proc_id *id, char *text, size_t capacity);

/* How a rank's process has ended, as far as `process` shows: PEER_DEAD or PEER_CRASHING, and "rank 1 (process 4711) was
 * killed by ...". */
tutti_status tti_proc_describe_end(int rank, const struct tti_proc_id *id, const struct tti_proc *process, char *text,
                                   size_t capacity);

/* "SIGKILL" and the like; NULL if it has no name here. */
const char *tti_signal_name(int number);

#endif
