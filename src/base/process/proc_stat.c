/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/process/proc_stat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host/text_file.h"

#define FILE_MOST 4096 /* longer than either file */

/* Fields of /proc/PID/stat, counted from the state, which is the third. */
enum { PARENT = 1, GROUP = 2, FLAGS = 6, THREADS = 17, STARTED = 19, EXIT_CODE = 49 };

/* "PID (NAME) STATE PARENT ...": the name may hold any byte, so it ends at the last bracket. */
bool tti_proc_stat(pid_t pid, struct tti_proc_stat *s)
{
    char text[FILE_MOST];
    tti_read_text(text, sizeof(text), "/proc/%d/stat", pid);
    const char *name = strchr(text, '(');
    const char *at = strrchr(text, ')');
    if (!name || !at || at < name || at[1] != ' ') {
        return false;
    }
    *s = (struct tti_proc_stat){.state = at[2]};
    snprintf(s->name, sizeof(s->name), "%.*s", (int)(at - name - 1), name + 1);
    int field = 0;
    for (at = strchr(at + 2, ' '); at; at = strchr(at + 1, ' ')) {
        const long long value = strtoll(at, NULL, 10);
        switch (++field) {
        case PARENT:
            s->parent = (pid_t)value;
            break;
        case GROUP:
            s->group = (pid_t)value;
            break;
        case FLAGS:
            s->flags = (unsigned)value;
            break;
        case THREADS:
            s->threads = (int)value;
            break;
        case STARTED:
            s->started = (uint64_t)value;
            break;
        case EXIT_CODE:
            s->code = (int)value;
            break;
        default:
            break;
        }
    }
    return field >= STARTED;
}

bool tti_proc_is_dumping(pid_t pid)
{
    char text[FILE_MOST];
    char value[4];
    tti_read_text(text, sizeof(text), "/proc/%d/status", pid);
    return tti_find_value(text, "CoreDumping", value, sizeof(value)) && strcmp(value, "1") == 0;
}
