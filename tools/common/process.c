/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Questions to /proc about processes: the parent of a process, the processes of a job, and whether one is about to end.
 * Processes come and go while /proc is read, so every answer is about a moment; callers ask again until nothing is
 * left.
 */
#include "common/process.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host/text_file.h"
#include "base/number.h"
#include "base/process/proc_stat.h"

#define FLAG_EXITING 0x4u /* PF_EXITING of the kernel */

pid_t tti_process_next(DIR *proc)
{
    struct dirent *entry = NULL;
    while ((entry = readdir(proc)) != NULL) {
        int64_t pid = 0;
        if (tti_parse_integer(entry->d_name, 1, INT32_MAX, &pid)) {
            return (pid_t)pid;
        }
    }
    return 0;
}

size_t tti_process_children(pid_t parent, pid_t *pids, size_t capacity)
{
    DIR *directory = opendir("/proc");
    if (!directory) {
        return 0;
    }
    size_t count = 0;
    pid_t pid = 0;
    while (count < capacity && (pid = tti_process_next(directory)) != 0) {
        struct tti_proc_stat facts;
        if (tti_proc_stat(pid, &facts) && facts.parent == parent && facts.state != 'Z' && facts.state != 'X') {
            pids[count++] = pid;
        }
    }
    closedir(directory);
    return count;
}

pid_t tti_process_parent(pid_t pid)
{
    struct tti_proc_stat facts;
    return tti_proc_stat(pid, &facts) ? facts.parent : 0;
}

bool tti_process_is_of_job(pid_t pid, const char *job, bool is_prefix)
{
    const size_t capacity = 1 << 20;
    const size_t compared = strlen(job) + !is_prefix; /* with the end of the text */
    char *text = malloc(capacity);
    if (!text) {
        return false;
    }
    ssize_t length = tti_read_text(text, capacity, "/proc/%d/environ", pid);
    bool found = false;
    for (ssize_t at = 0; at < length && !found; at += (ssize_t)strlen(text + at) + 1) {
        found = strncmp(text + at, "TUTTI_JOB=", 10) == 0 && strncmp(text + at + 10, job, compared) == 0;
    }
    free(text);
    return found;
}

size_t tti_process_kill_job(pid_t group, const char *job_prefix)
{
    DIR *directory = opendir("/proc");
    if (!directory) {
        return 0;
    }
    size_t count = 0;
    pid_t pid = 0;
    while ((pid = tti_process_next(directory)) != 0) {
        struct tti_proc_stat facts;
        if (pid == getpid() || !tti_proc_stat(pid, &facts) || facts.state == 'Z' || facts.state == 'X') {
            continue;
        }
        if ((facts.group == group || tti_process_is_of_job(pid, job_prefix, true)) && kill(pid, SIGKILL) == 0) {
            count++;
        }
    }
    closedir(directory);
    return count;
}

bool tti_process_is_ending(pid_t pid)
{
    struct tti_proc_stat facts;
    if (!tti_proc_stat(pid, &facts) || facts.state == 'Z' || facts.state == 'X' || (facts.flags & FLAG_EXITING)) {
        return true;
    }
    if (facts.code != 0 && facts.state != 'T' &&
        facts.state != 't') { /* its other threads end first; if stopped: by what */
        return true;
    }
    return tti_proc_is_dumping(pid);
}
