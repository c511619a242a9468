/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The suite's test of itself: a suite that cannot fail proves nothing. TUTTI_CHECK_SABOTAGE=COLLECTIVE[:WHAT] makes the
 * last rank spoil what it is about to check in the cases of that collective, and the run has to end with failures
 * there. WHAT is `result` (the default: one bit of the output), `async` (the same, of asynchronous operations only),
 * `guard` (a byte behind the output), `input` (one bit of an input) or `status`. tests/conformance/mutants.sh does it
 * for every collective.
 *
 * Nothing of the library is touched: it is the harness's own view that changes, behind the call and before the
 * comparison. The variable is for that script and not part of the interface.
 */
#include "check/sabotage.h"

#include <string.h>

bool tti_check_sabotaged(const struct tti_check *c, enum tti_check_spoil what)
{
    static const char *const names[] = {[TTI_CHECK_SPOIL_RESULT] = "result",
                                        [TTI_CHECK_SPOIL_GUARD] = "guard",
                                        [TTI_CHECK_SPOIL_INPUT] = "input",
                                        [TTI_CHECK_SPOIL_STATUS] = "status"};
    const char *wish = c->options->sabotage;
    if (!wish || c->rank != c->size - 1) {
        return false;
    }
    const size_t length = strcspn(wish, ":");
    if (strlen(c->collective) != length || strncmp(c->collective, wish, length) != 0) {
        return false;
    }
    const char *wanted = wish[length] == ':' ? wish + length + 1 : "result";
    if (what == TTI_CHECK_SPOIL_RESULT && c->completion != TTI_CHECK_SYNC && strcmp(wanted, "async") == 0) {
        return true;
    }
    return strcmp(wanted, names[what]) == 0;
}
