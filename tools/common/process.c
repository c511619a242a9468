/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Questions to /proc about processes: the parent of a process, the processes of a job, and whether one is about to end.
 * Processes come and go while /proc is read, so every answer is about a moment; callers ask again until nothing is
 * left.
 */
#include "common/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"

#define FLAG_EXITING    0x4u /* PF_EXITING of the kernel, in the flags of /proc/PID/stat */
#define FIELD_EXIT_CODE 52   /* the last one there; counted from 1, the name in brackets is the second */

struct facts {
    char state;
    pid_t parent;
    pid_t group;
    unsigned flags;
    int code; /* as waitpid will give it: known from the moment of a deadly signal on, or 0 */
};

static ssize_t read_file(pid_t pid, const char *name, char *text, size_t capacity)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t length = read(fd, text, capacity - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    return length;
}

static bool read_facts(pid_t pid, struct facts *facts)
{
    char text[1024];
    if (read_file(pid, "stat", text, sizeof(text)) <= 0) {
        return false;
    }
    /* "pid (name) state parent group session terminal foreground flags ...": the name may hold anything, even ")". */
    const char *rest = strrchr(text, ')');
    const char *code = rest;
    for (int field = 2; code && field < FIELD_EXIT_CODE; field++) {
        code = strchr(code + 1, ' ');
    }
    facts->code = code ? (int)strtol(code, NULL, 10) : 0;
    return rest && sscanf(rest + 1, " %c %d %d %*d %*d %*d %u", &facts->state, &facts->parent, &facts->group,
                          &facts->flags) == 4;
}

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
        struct facts facts;
        if (read_facts(pid, &facts) && facts.parent == parent && facts.state != 'Z' && facts.state != 'X') {
            pids[count++] = pid;
        }
    }
    closedir(directory);
    return count;
}

pid_t tti_process_parent(pid_t pid)
{
    struct facts facts;
    return read_facts(pid, &facts) ? facts.parent : 0;
}

bool tti_process_is_of_job(pid_t pid, const char *job, bool is_prefix)
{
    const size_t capacity = 1 << 20;
    const size_t compared = strlen(job) + !is_prefix; /* with the end of the text */
    char *text = malloc(capacity);
    if (!text) {
        return false;
    }
    ssize_t length = read_file(pid, "environ", text, capacity);
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
        struct facts facts;
        if (pid == getpid() || !read_facts(pid, &facts) || facts.state == 'Z' || facts.state == 'X') {
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
    struct facts facts;
    if (!read_facts(pid, &facts) || facts.state == 'Z' || facts.state == 'X' || (facts.flags & FLAG_EXITING)) {
        return true;
    }
    if (facts.code != 0 && facts.state != 'T' &&
        facts.state != 't') { /* its other threads end first; if stopped: by what */
        return true;
    }
    char text[4096];
    return read_file(pid, "status", text, sizeof(text)) > 0 && strstr(text, "\nCoreDumping:\t1\n") != NULL;
}
