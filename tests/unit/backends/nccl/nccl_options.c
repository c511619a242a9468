/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The effects of the settings nccl.* and rccl.*, for each version that treats one of them differently: variables of the
 * process, the configuration of a communicator, errors, and reports of settings that have no effect. Each case runs in
 * a process of its own, since variables are set once in a process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/nccl/library/options.h"
#include "core/settings/settings.h"

/* A failed assertion of cmocka jumps, which must not happen in a child process. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static const int versions[] = {20708, 21805, 22105, 22400, 22809};
#define VERSIONS (sizeof(versions) / sizeof(versions[0]))

static void run_in_child(void (*body)(const struct tti_nccl_library *library), const char *backend, int version)
{
    const bool nccl = strcmp(backend, "nccl") == 0;
    const struct tti_nccl_library library = {.backend = backend,
                                             .display_name = nccl ? "NCCL" : "RCCL",
                                             .device = nccl ? &tti_device_cuda : &tti_device_rocm,
                                             .version = version};
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        body(&library);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0) {
        fail_msg("%s %d failed", backend, version);
    }
}

static void run_everywhere(void (*body)(const struct tti_nccl_library *library))
{
    for (size_t i = 0; i < VERSIONS; i++) {
        run_in_child(body, "nccl", versions[i]);
        run_in_child(body, "rccl", versions[i]);
    }
}

/* The settings of a group, as "algo=ring", without the backend's name; NULL ends the list. */
struct group {
    struct tti_settings *settings; /* the process keeps them */
    tutti_open_info info;
};

static tutti_status resolve(struct group *group, const struct tti_nccl_library *library, const char *const *names,
                            tutti_error *error)
{
    char keys[8][128];
    const char *list[9] = {NULL};
    for (size_t i = 0; i < 8 && names[i]; i++) {
        snprintf(keys[i], sizeof(keys[i]), "%s.%s", library->backend, names[i]);
        list[i] = keys[i];
    }
    const tutti_config config = {.size = sizeof(config), .settings = list};
    const tutti_status status = tti_settings_resolve(&config, NULL, &group->settings, error);
    group->info =
        (tutti_open_info){.size = sizeof(group->info), .setting = tti_setting_by_key, .settings = group->settings};
    return status;
}

#define GROUP(library, ...)                                                                                            \
    make_group((library), (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL}, &(struct group){.info = {.size = 0}})

static const tutti_open_info *make_group(const struct tti_nccl_library *library, const char *const *names,
                                         struct group *group)
{
    tutti_error error;
    CHECK(resolve(group, library, names, &error) == TUTTI_OK);
    return &group->info;
}

static bool is_set(const char *variable, const char *value)
{
    const char *text = getenv(variable);
    return value ? text && strcmp(text, value) == 0 : !text;
}

static void apply(const struct tti_nccl_library *library, const tutti_open_info *info)
{
    tutti_error error;
    const tutti_status status = tti_nccl_apply_options(library, info, &error);
    if (status != TUTTI_OK) {
        fprintf(stderr, "%s\n", error.message);
    }
    CHECK(status == TUTTI_OK);
}

/* ---- variables ---- */

static void body_nothing(const struct tti_nccl_library *library)
{
    static const char *const variables[] = {"NCCL_ALGO", "NCCL_BUFFSIZE", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"};
    setenv("NCCL_DEBUG", "VERSION", 1);
    apply(library, GROUP(library));
    CHECK(is_set("NCCL_DEBUG", "VERSION"));
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        CHECK(is_set(variables[i], NULL));
    }
}

static void body_ring(const struct tti_nccl_library *library)
{
    setenv("NCCL_ALGO", "NVLS", 1); /* a setting overrides it */
    apply(library, GROUP(library, "algo=ring"));
    CHECK(is_set("NCCL_ALGO", library->version < 22400 ? "Ring" : "allreduce:ring"));
}

static void body_tree(const struct tti_nccl_library *library)
{
    const bool nccl = strcmp(library->backend, "nccl") == 0;
    setenv(nccl ? "TUTTI_NCCL_ALGO" : "TUTTI_RCCL_ALGO", "tree", 1);
    apply(library, GROUP(library));
    CHECK(is_set("NCCL_ALGO", library->version < 22400 ? "Tree" : "allreduce:tree"));
}

static void body_buffer(const struct tti_nccl_library *library)
{
    apply(library, GROUP(library, "buffer_size=2M"));
    CHECK(is_set("NCCL_BUFFSIZE", "2097152"));
}

static void body_channels(const struct tti_nccl_library *library)
{
    const tutti_open_info *info = GROUP(library, "channels=5");
    const bool by_variable = library->version < 21700;
    apply(library, info);
    CHECK(is_set("NCCL_MIN_NCHANNELS", by_variable ? "5" : NULL));
    CHECK(is_set("NCCL_MAX_NCHANNELS", by_variable ? "5" : NULL));
    const tti_nccl_config config = tti_nccl_config_of(library, info);
    CHECK(config.min_ctas == (by_variable ? TTI_NCCL_UNDEFINED : 5));
    CHECK(config.max_ctas == (by_variable ? TTI_NCCL_UNDEFINED : 5));
    const tti_nccl_config plain = tti_nccl_config_of(library, GROUP(library));
    CHECK(plain.min_ctas == TTI_NCCL_UNDEFINED && plain.max_ctas == TTI_NCCL_UNDEFINED);
    CHECK(plain.size == sizeof(plain) && plain.magic == 0xcafebeef && plain.version == 21800);
    CHECK(plain.blocking == 0 && plain.cga_cluster_size == TTI_NCCL_UNDEFINED);
    CHECK(!plain.net_name && plain.split_share == TTI_NCCL_UNDEFINED);
}

static void body_debug(const struct tti_nccl_library *library)
{
    static const char *const levels[][2] = {
        {"debug=version", "VERSION"}, {"debug=warn", "WARN"}, {"debug=info", "INFO"}, {"debug=trace", "TRACE"}};
    setenv("NCCL_DEBUG", "ABORT", 1);
    const char *const *level = levels[library->version % 4];
    apply(library, GROUP(library, level[0]));
    CHECK(is_set("NCCL_DEBUG", level[1]));
}

static void body_debug_none(const struct tti_nccl_library *library)
{
    setenv("NCCL_DEBUG", "INFO", 1);
    apply(library, GROUP(library, "debug=none"));
    CHECK(is_set("NCCL_DEBUG", NULL));
}

static void body_env(const struct tti_nccl_library *library)
{
    const bool nccl = strcmp(library->backend, "nccl") == 0;
    setenv(nccl ? "TUTTI_NCCL_ENV" : "TUTTI_RCCL_ENV", "FIRST=1;SECOND=2", 1);
    setenv("FOURTH", "kept", 1);
    apply(library, GROUP(library, "env.SECOND=two", "env.NCCL_PROTO=LL,Simple", "env.EMPTY=", "debug=warn",
                         "env.NCCL_DEBUG=warn"));
    CHECK(is_set("FIRST", "1") && is_set("SECOND", "two") && is_set("NCCL_PROTO", "LL,Simple"));
    CHECK(is_set("EMPTY", "") && is_set("FOURTH", "kept") && is_set("NCCL_DEBUG", "WARN"));
}

static void test_variables(void **state)
{
    (void)state;
    run_everywhere(body_nothing);
    run_everywhere(body_ring);
    run_everywhere(body_tree);
    run_everywhere(body_buffer);
    run_everywhere(body_channels);
    run_everywhere(body_debug);
    run_everywhere(body_debug_none);
    run_everywhere(body_env);
}

/* ---- errors ---- */

static void check_refused(const struct tti_nccl_library *library, const tutti_open_info *info, tutti_status status,
                          const char *const *words)
{
    tutti_error error;
    CHECK(tti_nccl_apply_options(library, info, &error) == status && error.status == status);
    for (; *words; words++) {
        if (!strstr(error.message, *words)) {
            fprintf(stderr, "\"%s\" is not in: %s\n", *words, error.message);
            _exit(1);
        }
    }
    CHECK(tti_nccl_apply_options(library, info, NULL) == status);
}
#define REFUSED(library, info, status, ...)                                                                            \
    check_refused((library), (info), (status), (const char *const[]){__VA_ARGS__, NULL})

static void body_contradiction(const struct tti_nccl_library *library)
{
    struct group group;
    tutti_error error;
    CHECK(resolve(&group, library, (const char *const[]){"algo=ring,tree", NULL}, &error) == TUTTI_INVALID_ARGUMENT);
    CHECK(strstr(error.message, "auto|ring|tree"));
    char key[32];
    snprintf(key, sizeof(key), "%s.env.NCCL_ALGO", library->backend);
    REFUSED(library, GROUP(library, "algo=ring", "env.NCCL_ALGO=Tree"), TUTTI_INVALID_ARGUMENT, ".algo", "ing", key,
            "Tree");
    REFUSED(library, GROUP(library, "debug=none", "env.NCCL_DEBUG=INFO"), TUTTI_INVALID_ARGUMENT, ".debug",
            "no NCCL_DEBUG", "INFO");
    CHECK(is_set("NCCL_ALGO", NULL));
    apply(library, GROUP(library, "algo=tree")); /* the refused settings have set no variable */
}

static void body_later_groups(const struct tti_nccl_library *library)
{
    const char *ring = library->version < 22400 ? "NCCL_ALGO=Ring" : "NCCL_ALGO=allreduce:ring";
    const char *tree = library->version < 22400 ? "NCCL_ALGO=Tree" : "NCCL_ALGO=allreduce:tree";
    char key[4][32];
    static const char *const names[] = {"algo", "debug", "env.EXTRA", "buffer_size"};
    for (size_t i = 0; i < 4; i++) {
        snprintf(key[i], sizeof(key[i]), "%s.%s ", library->backend, names[i]);
    }
    setenv("NCCL_BUFFSIZE", "65536", 1);
    apply(library, GROUP(library, "algo=ring", "env.EXTRA=one"));
    apply(library, GROUP(library));
    apply(library, GROUP(library, "algo=ring", "env.EXTRA=one", "debug=none", "buffer_size=64K"));
    REFUSED(library, GROUP(library, "algo=tree"), TUTTI_BAD_STATE, key[0], ring, tree);
    REFUSED(library, GROUP(library, "debug=info"), TUTTI_BAD_STATE, key[1], "NCCL_DEBUG=INFO", "without NCCL_DEBUG");
    REFUSED(library, GROUP(library, "env.EXTRA=One"), TUTTI_BAD_STATE, key[2], "EXTRA=One", "with EXTRA=one");
    REFUSED(library, GROUP(library, "buffer_size=1M"), TUTTI_BAD_STATE, key[3], "=1048576", "=65536");
    CHECK(is_set("NCCL_ALGO", strchr(ring, '=') + 1) && is_set("NCCL_DEBUG", NULL) && is_set("EXTRA", "one"));
    /* a setting of a communicator */
    if (library->version >= 21700) {
        apply(library, GROUP(library, "channels=3"));
    } else {
        REFUSED(library, GROUP(library, "channels=3"), TUTTI_BAD_STATE, "channels", "NCCL_MIN_NCHANNELS=3");
    }
    /* the other library reads the same variables */
    struct tti_nccl_library other = *library;
    other.backend = strcmp(library->backend, "nccl") == 0 ? "rccl" : "nccl";
    REFUSED(&other, GROUP(&other, "algo=tree"), TUTTI_BAD_STATE, ".algo", tree, ring);
}

static void body_no_list(const struct tti_nccl_library *library)
{
    tutti_error error;
    struct group group;
    static const char *const bad[] = {"algo=",           "algo=bus",    "channels=0",       "channels=129",
                                      "buffer_size=1",   "debug=loud",  "env=NAME",         "env.=x",
                                      "host_staging=ye", "threshold=1", "tree_threshold=-1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK(resolve(&group, library, (const char *const[]){bad[i], NULL}, &error) == TUTTI_INVALID_ARGUMENT);
        CHECK(strstr(error.message, library->backend));
    }
}

static void test_errors(void **state)
{
    (void)state;
    run_everywhere(body_contradiction);
    run_everywhere(body_later_groups);
    run_in_child(body_no_list, "nccl", 22809);
    run_in_child(body_no_list, "rccl", 22809);
}

/* ---- settings without effect ---- */

static void check_unheeded(const struct tti_nccl_library *library, const tutti_open_info *info,
                           const char *const *words)
{
    char text[1024] = "before";
    char cut[24];
    const size_t length = tti_nccl_setting_warnings(library, info, text, sizeof(text));
    CHECK(length == strlen(text) && (length == 0) == !*words);
    for (; *words; words++) {
        if (!strstr(text, *words)) {
            fprintf(stderr, "\"%s\" is not in: %s\n", *words, text);
            _exit(1);
        }
    }
    CHECK(tti_nccl_setting_warnings(library, info, cut, sizeof(cut)) == length && strncmp(cut, text, 23) == 0);
    CHECK(strlen(cut) == (length < 23 ? length : 23));
    CHECK(tti_nccl_setting_warnings(library, info, NULL, 0) == length);
}
#define UNHEEDED(library, info, ...)                                                                                   \
    check_unheeded((library), (info), (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void body_unheeded(const struct tti_nccl_library *library)
{
    const bool nccl = strcmp(library->backend, "nccl") == 0;
    char key[32];
    UNHEEDED(library, GROUP(library));
    UNHEEDED(library, GROUP(library, "algo=ring", "channels=8", "debug=warn", "buffer_size=1M", "env.A=1"));
    snprintf(key, sizeof(key), "%s.tree_threshold=65536", library->backend);
    UNHEEDED(library, GROUP(library, "tree_threshold=64K"), key, "no such threshold since 2.5", ".algo");
    if (nccl && library->version < 22500) {
        UNHEEDED(library, GROUP(library, "channels=33"), "nccl.channels=33", "32, the most that NCCL 2.");
    } else {
        UNHEEDED(library, GROUP(library, "channels=33"));
    }
    /* variables that override the configuration of a communicator */
    setenv("NCCL_MIN_CTAS", "2", 1);
    UNHEEDED(library, GROUP(library, "channels=2"));
    if (library->version >= 21700) {
        UNHEEDED(library, GROUP(library, "channels=4"), "channels=4", "NCCL_MIN_CTAS=2");
        setenv("NCCL_MAX_NCHANNELS", "3", 1);
        UNHEEDED(library, GROUP(library, "channels=4", "tree_threshold=0"), "NCCL_MIN_CTAS=2", "NCCL_MAX_NCHANNELS=3",
                 "; ", "tree_threshold=0");
    } else {
        UNHEEDED(library, GROUP(library, "channels=4"));
    }
    setenv("NCCL_COMM_BLOCKING", "0", 1);
    UNHEEDED(library, GROUP(library));
    setenv("NCCL_COMM_BLOCKING", "1", 1);
    UNHEEDED(library, GROUP(library), "NCCL_COMM_BLOCKING=1", "no deadline");
}

static void body_loaded(const struct tti_nccl_library *library)
{
    struct tti_nccl_library loaded = *library;
    loaded.loaded = true;
    UNHEEDED(&loaded, GROUP(&loaded));
    UNHEEDED(&loaded, GROUP(&loaded, "algo=tree", "debug=info"), ".algo comes too late", ".debug comes too late");
    if (library->version >= 21700) {
        UNHEEDED(&loaded, GROUP(&loaded, "channels=4"));
    } else {
        UNHEEDED(&loaded, GROUP(&loaded, "channels=4"), ".channels comes too late");
    }
}

static void test_unheeded(void **state)
{
    (void)state;
    run_everywhere(body_unheeded);
    run_everywhere(body_loaded);
}

/* ---- both backends ---- */

/* Both backends have the same settings. */
static void test_table(void **state)
{
    (void)state;
    tutti_config_key_info rows[2][16];
    size_t counts[2] = {0};
    tutti_config_key_info row = {.size = sizeof(row)};
    for (size_t i = 0; tutti_config_key(i, &row) == TUTTI_OK; i++) {
        const int family = strncmp(row.key, "nccl.", 5) == 0 ? 0 : strncmp(row.key, "rccl.", 5) == 0 ? 1 : -1;
        if (family >= 0) {
            assert_in_range(counts[family], 0, 15);
            rows[family][counts[family]++] = row;
        }
    }
    static const char *const keys[] = {"algo", "buffer_size",  "channels",       "debug",
                                       "env",  "host_staging", "native_min_max", "tree_threshold"};
    assert_int_equal(counts[0], sizeof(keys) / sizeof(keys[0]));
    assert_int_equal(counts[1], counts[0]);
    for (size_t i = 0; i < counts[0]; i++) {
        const tutti_config_key_info *n = &rows[0][i];
        const tutti_config_key_info *r = &rows[1][i];
        assert_string_equal(n->key + 5, keys[i]);
        assert_string_equal(r->key + 5, keys[i]);
        assert_memory_equal(n->environment, "TUTTI_NCCL_", 11);
        assert_memory_equal(r->environment, "TUTTI_RCCL_", 11);
        assert_string_equal(n->environment + 11, r->environment + 11);
        assert_string_equal(n->default_value, r->default_value);
        assert_string_equal(n->choices, r->choices);
        assert_int_equal(n->type, r->type);
        assert_int_equal(n->minimum, r->minimum);
        assert_true(r->maximum >= n->maximum); /* RCCL has more channels */
    }
}

static void test_version_text(void **state)
{
    (void)state;
    static const struct {
        int version;
        const char *text;
    } cases[] = {{2708, "2.7.8"},   {20708, "2.7.8"},  {2804, "2.8.4"}, {20900, "2.9.0"},
                 {21805, "2.18.5"}, {22809, "2.28.9"}, {0, "0.0.0"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[16];
        tti_nccl_version_text(cases[i].version, text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    static const char *const families[] = {"NCCL_", "TUTTI_NCCL_", "TUTTI_RCCL_"};
    extern char **environ;
    for (char **variable = environ; *variable;) {
        char name[128] = "";
        for (size_t i = 0; i < 3; i++) {
            if (strncmp(*variable, families[i], strlen(families[i])) == 0) {
                snprintf(name, sizeof(name), "%.*s", (int)strcspn(*variable, "="), *variable);
            }
        }
        if (!*name || unsetenv(name) != 0) {
            variable++; /* unsetenv has moved the next one here */
        }
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variables), cmocka_unit_test(test_errors),       cmocka_unit_test(test_unheeded),
        cmocka_unit_test(test_table),     cmocka_unit_test(test_version_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
