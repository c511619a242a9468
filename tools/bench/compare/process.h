/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_BENCH_COMPARE_PROCESS_H
#define TTI_BENCH_COMPARE_PROCESS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tti_compare_signals {
    int fd;
    sigset_t original;
    void (*original_pipe)(int);
    size_t open_files;
};

struct tti_compare_job {
    char *const *words;
    const char *const *environment; /* variables on top; or NULL */
    int out;                        /* standard output and error */
    int err;
    int64_t limit_ms;
};

bool tti_compare_signals_open(struct tti_compare_signals *signals);
void tti_compare_signals_close(struct tti_compare_signals *signals);

/* Runs a job to its end; afterwards none of its processes is left. 0 if it ended with exit code 0, the number of the
 * signal that asked this program to end, or -1 and a sentence in `why`. */
int tti_compare_run(const struct tti_compare_job *job, const struct tti_compare_signals *signals, char *why,
                    size_t capacity);

#endif
