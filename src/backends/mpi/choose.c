/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choosing the MPI library of this process, in this order: a library that is loaded already; else the one that fits the
 * launcher's environment variables, under the name in TUTTI_MPI_LIBRARY or under its usual names. Its flavour (the
 * binary interface) selects the plug-in file.
 */
#include "backends/mpi/choose.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_TEXT 8192 /* no MPI's MPI_MAX_LIBRARY_VERSION_STRING is larger */

typedef int (*version_function)(char *text, int *length);

static const struct {
    const char *flavour;
    const char *names[4];
} libraries[] = {
    {"openmpi", {"libmpi.so.40", "libmpi.so.80"}},
    {"mpich", {"libmpich.so.12", "libmpi.so.12"}}, /* Intel MPI and MPICH's own builds have the second name */
    {"abi", {"libmpi_abi.so.1", "libmpi_abi.so.0"}},
};

/* By the version text of the library, which it returns before MPI_Init, too. NULL: there is no plug-in for it. */
static const char *flavour_of(void *file)
{
    char text[VERSION_TEXT] = "";
    int length = 0;
    version_function version;
    *(void **)&version = dlsym(file, "MPI_Get_library_version");
    if (!version) {
        return NULL;
    }
    if (dlsym(file, "MPI_Abi_get_version")) {
        Dl_info info;
        if (dladdr(*(void **)&version, &info) != 0 && info.dli_fname && strstr(info.dli_fname, "mpi_abi")) {
            return "abi";
        }
    }
    version(text, &length);
    if (strstr(text, "Open MPI")) {
        return "openmpi";
    }
    return strstr(text, "MPICH") || strstr(text, "Intel(R) MPI") || strstr(text, "MVAPICH") ? "mpich" : NULL;
}

/* Called for each library of the process; takes the first MPI library. */
static int check_file(struct dl_phdr_info *info, size_t size, void *user)
{
    struct tti_mpi_choice *choice = user;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    const char *name = slash ? slash + 1 : info->dlpi_name;
    (void)size;
    if (!name || (strncmp(name, "libmpi.so", 9) != 0 && strncmp(name, "libmpich.so", 11) != 0 &&
                  strncmp(name, "libmpi_abi.so", 13) != 0)) {
        return 0;
    }
    snprintf(choice->library, sizeof(choice->library), "%s", info->dlpi_name);
    return 1;
}

static bool find_loaded(struct tti_mpi_choice *choice)
{
    void *file = NULL;
    dl_iterate_phdr(check_file, choice);
    if (choice->library[0] != '\0') {
        file = dlopen(choice->library, RTLD_LAZY | RTLD_NOLOAD);
    } else if (dlsym(RTLD_DEFAULT, "MPI_Get_library_version")) { /* linked into the program, or under an unusual name */
        file = dlopen(NULL, RTLD_LAZY);
    }
    if (!file) {
        choice->library[0] = '\0';
        return false;
    }
    choice->flavour = flavour_of(file);
    choice->loaded = true;
    dlclose(file);
    snprintf(choice->reason, sizeof(choice->reason), "%.100s is in the process",
             choice->library[0] ? choice->library : "an MPI library");
    return true;
}

static const char *first_set(const char *const *names)
{
    while (*names && !getenv(*names)) {
        names++;
    }
    return *names;
}

/* The flavour of MPI that the launcher belongs to; NULL: no launcher of MPI jobs has started this process. One variable
 * is enough, while a rank needs several (core/launchers/world.c): this names a library, and no rank. */
static const char *launcher(const char **variable)
{
    static const char *const openmpi[] = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL};
    static const char *const mpich[] = {"PMI_RANK", "PMI_FD", "PMI_PORT", "PMI_SIZE", NULL};
    static const char *const pmix[] = {"PMIX_RANK", NULL};
    if ((*variable = first_set(openmpi))) {
        return "openmpi";
    }
    if ((*variable = first_set(mpich))) {
        return "mpich";
    }
    return (*variable = first_set(pmix)) ? "openmpi" : NULL;
}

bool tti_mpi_choose(struct tti_mpi_choice *choice)
{
    const char *variable = NULL;
    const char *by_launcher = launcher(&variable);
    memset(choice, 0, sizeof(*choice));
    choice->launched = by_launcher != NULL;
    if (find_loaded(choice)) {
        if (!choice->flavour) {
            snprintf(choice->reason, sizeof(choice->reason),
                     "%.80s is in the process, which is neither Open MPI nor MPICH", choice->library);
        }
        return choice->flavour != NULL;
    }
    if (!by_launcher) {
        snprintf(choice->reason, sizeof(choice->reason),
                 "no launcher of MPI jobs has started this process, and there is no MPI in it; use mpirun or mpiexec");
        return false;
    }
    const char *library = getenv("TUTTI_MPI_LIBRARY");
    if (library && *library) {
        snprintf(choice->library, sizeof(choice->library), "%s", library);
    }
    choice->flavour = by_launcher;
    snprintf(choice->reason, sizeof(choice->reason), "its launcher has set %s", variable);
    return true;
}

bool tti_mpi_open_library(const struct tti_mpi_choice *choice, char *why, size_t capacity)
{
    /* Global: the plug-in does not name the library, since its name differs between installations; and an MPI library
     * loads modules of its own, which use its symbols. */
    const int flags = RTLD_NOW | RTLD_GLOBAL;
    if (choice->loaded && choice->library[0] == '\0') {
        return true;
    }
    if (choice->library[0] != '\0') {
        if (dlopen(choice->library, flags)) {
            return true;
        }
        const char *text = dlerror();
        snprintf(why, capacity, "%s", text ? text : choice->library);
        return false;
    }
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        for (const char *const *name = libraries[i].names; strcmp(libraries[i].flavour, choice->flavour) == 0 && *name;
             name++) {
            if (dlopen(*name, flags)) {
                return true;
            }
        }
    }
    const char *text = dlerror();
    snprintf(why, capacity, "%s, but its library cannot be loaded: %s (TUTTI_MPI_LIBRARY may name it)", choice->reason,
             text ? text : choice->flavour);
    return false;
}

bool tti_mpi_is_running(void)
{
    int (*initialized)(int *flag);
    int flag = 0;
    *(void **)&initialized = dlsym(RTLD_DEFAULT, "MPI_Initialized");
    return initialized && initialized(&flag) == 0 && flag != 0;
}
