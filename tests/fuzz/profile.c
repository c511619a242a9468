/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine profile file: it is accepted if it is complete and plausible, else ignored. */
#include "fuzz.h"

#include "engine/tuning/profile_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct tti_machine machine = {.cpu = "Some CPU", .kernel = "6.1 x86_64", .isa = "avx2", .cpus = 4};
    char *text = malloc(size + 1);
    if (!text) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    struct tti_profile profile = tti_profile_built_in;
    if (tti_profile_parse(text, &machine, &profile)) {
        char again[4096];
        struct tti_profile same = tti_profile_built_in;
        fuzz_expect(tti_profile_format(&machine, &profile, again, sizeof(again)) > 0 &&
                        tti_profile_parse(again, &machine, &same) && same.wake_ns == profile.wake_ns,
                    "a profile that was taken cannot be written and read again");
    }
    free(text);
    return 0;
}
