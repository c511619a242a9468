/* SPDX-License-Identifier: BSD-3-Clause */
/* The same from C++, with the builders of tutti.hpp. */
#include <cstdio>
#include <tutti/backend.h>
#include <tutti/tutti.hpp>

static tutti_status agree(tutti_group *group, void *)
{
    tutti_error error;
    tutti_status status = tutti_barrier(group, tutti::call().timeout_ms(60000).error(&error));
    if (status != TUTTI_OK) {
        std::printf("barrier: %s\n", error.message);
    }
    return status;
}

int main()
{
    tutti_config config;
    tutti_config_init(&config);
    if (config.size != sizeof(config) || tutti_backend_find("local") == nullptr) {
        std::puts("the library is not the one that the header describes");
        return 1;
    }
    tutti_error error;
    if (tutti_run_threads(2, agree, nullptr, &error) != TUTTI_OK) {
        std::printf("two ranks could not form a group: %s\n", error.message);
        return 1;
    }
    std::printf("tutti %s\n", tutti_version_string());
    return 0;
}
