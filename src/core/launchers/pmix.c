/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PMIx needs a library of its own, so a plug-in file calls it. Only jobs over several hosts without a named host of
 * rank 0 open that file. A PMIx server sets its address in the environment of the processes that it starts.
 */
#include "core/launchers/pmix.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/plugin_file.h"
#include "core/launchers/plugin/pmix.h"

static bool is_served(void)
{
    static const char *const names[] = {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3",
                                        "PMIX_SERVER_URI21", "PMIX_SERVER_URI2"};
    bool served = false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        served = served || getenv(names[i]);
    }
    return served && getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK");
}

static tti_pmix_first_host_function find(char *why, size_t capacity)
{
    static const char name[] = "tutti-pmix.so";
    char path[PATH_MAX];
    char looked[512];
    if (!tti_plugin_find(name, path, sizeof(path), looked, sizeof(looked))) {
        snprintf(why, capacity, "there is no file %s in %.200s (it is built with Debian's libpmix-dev)", name, looked);
        return NULL;
    }
    tti_pmix_first_host_function found = NULL;
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (file) {
        *(void **)&found = dlsym(file, TTI_PMIX_FIRST_HOST);
    }
    if (!found) {
        const char *text = dlerror();
        snprintf(why, capacity, "%s", text ? text : path);
    }
    return found;
}

bool tti_pmix_first_host(char *host, size_t capacity, char *why, size_t why_capacity)
{
    /* PMIx is started once. A fork does not wait for this mutex: the start asks a server, which may take long. */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (!is_served()) {
        snprintf(why, why_capacity, "no PMIx server has started this process");
        return false;
    }
    pthread_mutex_lock(&lock);
    const tti_pmix_first_host_function first_host = find(why, why_capacity);
    const bool found = first_host && first_host(host, capacity, why, why_capacity) == 0;
    pthread_mutex_unlock(&lock);
    return found;
}
