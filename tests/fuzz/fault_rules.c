/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of the fault backend: any text is accepted or refused with a sentence, and accepted rules can be used. */
#include "fuzz.h"

#include "backends/fault/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    static struct tti_rules rules;
    tutti_error error;
    if (!text) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    if (tti_rules_parse(text, &rules, &error) == TUTTI_OK) {
        fuzz_expect(rules.count >= 0 && rules.count <= TTI_RULES_MAX, "more rules than there is room for");
        for (int32_t rank = 0; rank < 3; rank++) {
            const struct tti_fault_effect v = tti_rules_evaluate(&rules, rank, TUTTI_OP_ALL_REDUCE);
            fuzz_expect(v.delay_ns >= 0 && v.bandwidth >= 0, "a negative delay or bandwidth");
        }
    } else {
        fuzz_expect(error.status == TUTTI_INVALID_ARGUMENT && error.message[0], "refused without a sentence");
    }
    free(text);
    return 0;
}
