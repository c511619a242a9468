/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of MPI: queried without a start; started once by Tutti and finalised at the end of the process; or started
 * and finalised by the application.
 *
 *     life available|missing       one process: whether mpi can be used; MPI is not started
 *     life here STORE              Tutti starts MPI, from two threads at the same time; STORE is the name of the
 *                                  second one's rendezvous. The ranks pretend to be on two hosts
 *     life settings                the settings that concern MPI's start, and the description of a group
 *     life application             the program starts and ends MPI
 */
#include <pthread.h>

#include "support.h"

static bool is_started(void)
{
    int flag = 0;
    PMPI_Initialized(&flag);
    return flag != 0;
}

static bool is_ended(void)
{
    int flag = 0;
    PMPI_Finalized(&flag);
    return flag != 0;
}

static int level(void)
{
    int given = -1;
    PMPI_Query_thread(&given);
    return given;
}

/* The group has MPI's rank and size, and reduces. */
static void expect_works(tutti_group *group)
{
    const int64_t one = 1;
    int32_t value = tutti_group_rank(group) + 1;
    tutti_error error = {0};
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    EXPECT(tutti_group_size(group) == RANKS);
    ledger_say_backend(group);
    EXPECT_OK(tutti_all_reduce(group, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &error)));
    EXPECT(value == RANKS * (RANKS + 1) / 2);
}

/* ---- without a start --------------------------------------------------------------------------------------------- */

static void availability(bool expected)
{
    char why[400] = "";
    const tutti_backend *mpi = tutti_backend_find("mpi");
    EXPECT(mpi && strcmp(mpi->name, "mpi") == 0 && mpi->priority == 50);
    for (int i = 0; i < 2; i++) {
        ledger_expect(tutti_backend_available(mpi, why, sizeof(why)) == expected, "available", why, __FILE__, __LINE__);
        EXPECT(!is_started() && !is_ended() && call_counter_take(COUNTED_INIT_THREAD).calls == 0);
    }
    EXPECT(expected || strstr(why, "no launcher"));
    if (!expected) {
        tutti_group *group = NULL;
        tutti_error error = {0};
        EXPECT_STATUS(TUTTI_NOT_AVAILABLE, tutti_init(TUTTI_CONFIG(.backend = "mpi"), &group, &error));
        EXPECT(!is_started());
    }
}

/* ---- started by Tutti -------------------------------------------------------------------------------------------- */

struct start {
    const char *store;
    tutti_group *group;
};

static void *start_in_thread(void *user)
{
    struct start *start = user;
    tutti_error error = {0};
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "mpi", .store = start->store), &start->group, &error));
    return NULL;
}

static void communicators(tutti_group *group)
{
    int compared = MPI_UNEQUAL;
    int rank = -1;
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    tutti_group *part = NULL;
    tutti_error error = {0};
    const MPI_Comm *native = tutti_group_native_communicator(group);
    EXPECT(native && *native != MPI_COMM_NULL && *native != MPI_COMM_WORLD);
    PMPI_Comm_compare(*native, MPI_COMM_WORLD, &compared);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_get_errhandler(*native, &handler);
    EXPECT(compared == MPI_CONGRUENT && rank == tutti_group_rank(group) && handler == MPI_ERRORS_RETURN);
    /* "auto" chooses again: on one host another backend is better, and has no communicator */
    EXPECT_OK(tutti_group_split(group, rank, 0, NULL, &part, &error));
    EXPECT(strcmp(tutti_group_backend(part), "mpi") != 0 && !tutti_group_native_communicator(part));
    EXPECT_OK(tutti_group_destroy(part, &error));
    EXPECT_OK(tutti_group_split(group, rank == 0 ? 0 : -1, 0, TUTTI_CONFIG(.backend = "mpi"), &part, &error));
    EXPECT((part != NULL) == (rank == 0));
    if (part) {
        int size = 0;
        native = tutti_group_native_communicator(part);
        EXPECT(native && PMPI_Comm_size(*native, &size) == MPI_SUCCESS && size == 1);
        EXPECT_OK(tutti_group_destroy(part, &error));
    }
}

/* Errors of MPI have its class, code and text. An error that Tutti notices first does not reach MPI. */
static void errors(void)
{
    MPI_Comm none = MPI_COMM_NULL;
    MPI_Comm self = MPI_COMM_SELF;
    int class = MPI_SUCCESS;
    int length = 0;
    char number[64];
    char text[MPI_MAX_ERROR_STRING] = "";
    tutti_group *group = NULL;
    tutti_error error = {0};
    EXPECT_STATUS(TUTTI_BACKEND,
                  tutti_init(TUTTI_CONFIG(.backend = "mpi", .native_communicator = &none), &group, &error));
    PMPI_Error_class((int)error.vendor_code, &class);
    PMPI_Error_string((int)error.vendor_code, text, &length);
    text[strcspn(text, "\n")] = '\0';
    snprintf(number, sizeof(number), "class %d, code %lld", class, (long long)error.vendor_code);
    EXPECT(class == MPI_ERR_COMM && text[0] != '\0' && !group && strcmp(error.backend, "mpi") == 0);
    EXPECT(strstr(error.message, number) && strstr(error.message, text));
    EXPECT_STATUS(TUTTI_NOT_AVAILABLE,
                  tutti_init(TUTTI_CONFIG(.backend = "mpi", .native_communicator = &self), &group, &error));
    EXPECT(strstr(error.message, "world of 1") != NULL && strcmp(error.backend, "mpi") == 0);
}

static void here(const char *store)
{
    tutti_error error = {0};
    tutti_group *group = NULL;
    struct start second = {.store = store};
    pthread_t thread;
    char text[2000] = "";
    size_t needed = 0;
    availability(true);
    call_counter_expect_end();
    EXPECT(setenv("TUTTI_HOST_ID", getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK") : getenv("PMI_RANK"),
                  1) == 0);
    EXPECT(pthread_create(&thread, NULL, start_in_thread, &second) == 0);
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "auto"), &group, &error));
    pthread_join(thread, NULL);
    const struct call_counter w = call_counter_take(COUNTED_INIT_THREAD);
    EXPECT(is_started() && w.calls == 1 && w.level == MPI_THREAD_MULTIPLE && level() == MPI_THREAD_MULTIPLE);
    EXPECT(tutti_group_device(group).device_type == kDLCPU);
    expect_works(group);
    expect_works(second.group);
    communicators(group);
    EXPECT_OK(tutti_group_describe(group, text, sizeof(text), &needed, &error));
    EXPECT(strstr(text, "started here") && strstr(text, "threads multiple") && strstr(text, "CUDA no"));
    EXPECT_OK(tutti_group_destroy(group, &error));
    EXPECT_STATUS(TUTTI_BAD_STATE, tutti_group_destroy(group, &error));
    EXPECT_OK(tutti_group_destroy(second.group, &error));
    errors();
    EXPECT_OK(tutti_finalize(&error));
    EXPECT(is_started() && !is_ended());
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "mpi"), &group, &error));
    expect_works(group);
    EXPECT_OK(tutti_finalize(&error));
    EXPECT(call_counter_take(COUNTED_INIT_THREAD).calls == 0 && !is_ended());
}

static void expect_variable(const char *name, const char *value)
{
    const char *found = getenv(name);
    ledger_expect(found && strcmp(found, value) == 0, "a setting sets its variable", name, __FILE__, __LINE__);
}

static void with_settings(void)
{
#ifdef OPEN_MPI
    static const char algorithm[] = "OMPI_MCA_coll_tuned_allreduce_algorithm";
#else
    static const char algorithm[] = "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM";
#endif
    static const char *const settings[] = {"mpi.thread_level=serialized",
                                           "mpi.env.I_MPI_STATS=1",
                                           "mpi.env.I_MPI_ADJUST_ALLREDUCE=2",
                                           "mpi.tuning.all_reduce=recursive_doubling",
                                           "mpi.profiling=yes",
                                           "mpi.cuda_aware=yes",
                                           NULL};
    char text[4000] = "";
    size_t needed = 0;
    tutti_error error = {0};
    tutti_group *group = NULL;
    call_counter_expect_end();
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "mpi", .settings = settings), &group, &error));
    EXPECT(call_counter_take(COUNTED_INIT_THREAD).level == MPI_THREAD_SERIALIZED);
    expect_variable("I_MPI_STATS", "1");
    expect_variable("I_MPI_ADJUST_ALLREDUCE", "2");
    expect_variable(algorithm, "recursive_doubling");
    expect_works(group);
    EXPECT_OK(tutti_group_describe(group, text, sizeof(text), &needed, &error));
    EXPECT(strstr(text, "threads serialized") && strstr(text, "CUDA yes"));
    const char *profile = strstr(text, "profile");
    EXPECT(profile && strstr(profile, "all_reduce"));
    EXPECT_OK(tutti_group_destroy(group, &error));
}

/* ---- started by the application ---------------------------------------------------------------------------------- */

static void application(void)
{
    char why[400] = "";
    char text[2000] = "";
    size_t needed = 0;
    MPI_Comm world = MPI_COMM_WORLD;
    tutti_error error = {0};
    tutti_group *group = NULL;
    PMPI_Init(NULL, NULL);
    EXPECT(tutti_backend_available(tutti_backend_find("mpi"), why, sizeof(why)) && strstr(why, "by the application"));
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "mpi", .native_communicator = &world), &group, &error));
    expect_works(group);
    EXPECT_OK(tutti_group_describe(group, text, sizeof(text), &needed, &error));
    EXPECT(strstr(text, "started by the application") != NULL);
    EXPECT_OK(tutti_group_destroy(group, &error));
    EXPECT_OK(tutti_finalize(&error));
    EXPECT(!is_ended());
    PMPI_Finalize();
    EXPECT(call_counter_take(COUNTED_INIT).calls == 0 && call_counter_take(COUNTED_INIT_THREAD).calls == 0);
    EXPECT(!tutti_backend_available(tutti_backend_find("mpi"), why, sizeof(why)) && strstr(why, "finalized"));
    EXPECT_STATUS(TUTTI_NOT_AVAILABLE, tutti_init(TUTTI_CONFIG(.backend = "mpi"), &group, &error));
    EXPECT(call_counter_take(COUNTED_FINALIZE).calls == 0);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "here") == 0 && argc > 2) {
        here(argv[2]);
    } else if (strcmp(what, "settings") == 0) {
        with_settings();
    } else if (strcmp(what, "application") == 0) {
        application();
    } else {
        availability(strcmp(what, "available") == 0);
    }
    return 0;
}
