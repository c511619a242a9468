/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries the library of backend nccl from several threads at once, and prints the result and the query's effect on the
 * process. An argument is a file to open first.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/nccl/library/library.h"

enum { THREADS = 4 };

struct answer {
    const struct tti_nccl_library *library;
    char why[400];
};

static void *ask(void *user)
{
    struct answer *answer = user;
    answer->library = tti_nccl_library("nccl", answer->why, sizeof(answer->why));
    return NULL;
}

static int count_threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry = tasks ? readdir(tasks) : NULL; entry; entry = readdir(tasks)) {
        count += entry->d_name[0] != '.';
    }
    if (tasks) {
        closedir(tasks);
    }
    return count;
}

/* The kernel may still list threads that have been joined. */
static int count_threads_that_stay(void)
{
    int count = count_threads();
    for (int i = 0; i < 500 && count > 1; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        count = count_threads();
    }
    return count;
}

static int count_mappings(const char *name)
{
    char line[4608];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof(line), maps)) {
        count += strstr(line, name) != NULL;
    }
    if (maps) {
        fclose(maps);
    }
    return count;
}

int main(int argc, char **argv)
{
    struct answer answers[THREADS] = {0};
    pthread_t threads[THREADS];
    if (argc > 1 && !dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) {
        return fprintf(stderr, "%s\n", dlerror()), 1;
    }
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, ask, &answers[i]) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        if (answers[i].library != answers[0].library || strcmp(answers[i].why, answers[0].why) != 0) {
            return fprintf(stderr, "different answers: %s, %s\n", answers[i].why, answers[0].why), 1;
        }
    }
    /* The query runs once: changes of the environment have no effect now. */
    setenv("TUTTI_NCCL_LIBRARY", "/nowhere", 1);
    struct answer later = {0};
    ask(&later);
    const struct tti_nccl_library *library = answers[0].library;
    if (later.library != library || strcmp(later.why, answers[0].why) != 0) {
        return fprintf(stderr, "another answer later: %s\n", later.why), 1;
    }
    if (library) {
        char version[16];
        tti_nccl_version_text(library->version, version);
        printf("library: %d %s %s %s\n", library->version, version, library->loaded ? "loaded" : "opened",
               library->path);
#define TELL_MISSING(name, since, result, arguments)                                                                   \
    if (!library->name) {                                                                                              \
        printf("missing: %s\n", #name);                                                                                \
    }
        TTI_NCCL_FUNCTIONS(TELL_MISSING)
#undef TELL_MISSING
    } else {
        printf("none: %s\n", answers[0].why);
    }
    char why[400] = "";
    const tutti_backend *backend = tutti_backend_find("nccl");
    const int32_t yes = tutti_backend_available(backend, why, sizeof(why));
    printf("backend: %s%s\n", yes ? "yes" : "no: ", yes ? "" : why);
    printf("mapped: %s\n", count_mappings("libnccl.so") > 0 ? "yes" : "no");
    printf("threads: %d\n", count_threads_that_stay());
    return 0;
}
