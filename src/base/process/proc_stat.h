/* SPDX-License-Identifier: BSD-3-Clause */
/* What /proc shows of a process. The caller knows that the number is valid in this namespace: see proc.h. */
#ifndef TTI_BASE_PROCESS_PROC_STAT_H
#define TTI_BASE_PROCESS_PROC_STAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tti_proc_stat {
    char name[64];
    char state; /* 'R' = running, 'Z' = zombie, ...: see proc(5) */
    pid_t parent;
    pid_t group;
    unsigned flags; /* the kernel's PF_* */
    int threads;
    uint64_t started; /* in the kernel's ticks since the boot: separates it from a later process with this number */
    int code;         /* as waitpid will give it: known from the moment of a deadly signal on, or 0 */
};

/* Reads /proc/PID/stat. False: there is no such process, or no /proc. */
bool tti_proc_stat(pid_t pid, struct tti_proc_stat *s);

/* Whether the process is writing a core dump. */
bool tti_proc_is_dumping(pid_t pid);

#endif
