/* SPDX-License-Identifier: BSD-3-Clause */
/* Which addresses ranks choose. Ranks with different TUTTI_HOST_ID probe, like ranks on different hosts. */
#include <stdbool.h>
#include <stdio.h>

#include "api/group/init_processes.h"
#include "time_limits.h"

#define RANKS 3

static char store[64];

struct wanted {
    const char *interface;
    bool several_hosts;
    const char *text;    /* in the description */
    tutti_status status; /* of init */
};

static void join(int32_t rank, void *user)
{
    const struct wanted *w = user;
    char host[16];
    char text[8192] = "";
    tutti_group *g = NULL;
    tutti_error error;
    snprintf(host, sizeof(host), "host-%d", rank);
    if (w->several_hosts) {
        setenv("TUTTI_HOST_ID", host, 1);
    }
    setenv("TUTTI_GLOO_INTERFACE", w->interface, 1);
    const tutti_status status = tutti_init(
        TUTTI_CONFIG(.backend = "gloo", .store = store, .rank = rank, .world_size = RANKS, .timeout_ms = LONG_MS), &g,
        &error);
    test_status(__FILE__, __LINE__, "init", status, w->status, &error, status == TUTTI_OK ? "" : w->text);
    if (status != TUTTI_OK) {
        return;
    }
    EXPECT_OK(tutti_group_describe(g, text, sizeof(text), NULL, NULL));
    if (!strstr(text, w->text)) {
        fprintf(stderr, "not in the description: %s\n%s\n", w->text, text);
        test_fail(__FILE__, __LINE__, "the description has another address");
    }
    EXPECT_USABLE(g);
    EXPECT_OK(tutti_group_destroy(g, NULL));
}

int main(void)
{
    static const struct wanted cases[] = {{"", false, "127.0.0.1 on lo: all ranks are on this host", TUTTI_OK},
                                          {"", true, "probed, all ranks reach it", TUTTI_OK},
                                          {"lo", false, " on lo: ", TUTTI_OK},
                                          {"lo", true, "127.0.0.1 on lo: probed, all ranks reach it", TUTTI_OK},
                                          {"nowhere0", false, "gloo.interface is \"nowhere0\"", TUTTI_NOT_AVAILABLE}};
    test_stand_alone();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wanted w = cases[i];
        snprintf(store, sizeof(store), "unix:gloo-addresses-%ld-%zu", (long)getpid(), i);
        test_processes(w.text, RANKS, join, &w);
    }
    return test_result();
}
