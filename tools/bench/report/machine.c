/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine on which the numbers were measured: without it a table of times means nothing. */
#include "bench/report/machine.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/host/cpu.h"
#include "bench/measure/agree.h"
#include "bench/measure/patterns.h"
#include "info/info.h"
#include "kernels/kernels.h"

/* The CPUs that any rank may use, and the smallest quota: ranks may be bound to CPUs of their own. */
static bool count_cpus(struct tti_bench *b, struct tti_bench_machine *machine)
{
    uint64_t mask[TTI_CPU_WORDS];
    tti_cpu_mask(mask);
    int64_t words = TTI_CPU_WORDS;
    const double quota = tti_cpu_quota();
    int64_t thousandths = quota > 0 ? (int64_t)(quota * 1000) : INT64_MAX;
    DLTensor t = tutti_tensor_1d(mask, &words, TUTTI_U64);
    if (tutti_all_reduce(b->control, &t, &t, TUTTI_BOR, TUTTI_CALL(.error = &b->error)) != TUTTI_OK ||
        !tti_bench_agree(b, &thousandths, 1, TUTTI_MIN)) {
        return false;
    }
    int count = 0;
    for (int i = 0; i < TTI_CPU_WORDS; i++) {
        count += __builtin_popcountll(mask[i]);
    }
    count = count > 0 ? count : 1;
    const double usable = (double)thousandths < count * 1000.0 ? (double)thousandths / 1000 : count;
    machine->cpus = usable < count ? (int)(usable + 0.999) : count;
    machine->ranks_per_cpu = b->size / usable;
    return true;
}

static bool describe(struct tti_bench *b, char **text)
{
    size_t length = 0;
    if (tutti_group_describe(b->group, NULL, 0, &length, &b->error) != TUTTI_OK) {
        return false;
    }
    *text = calloc(1, length + 1);
    if (!*text) {
        tti_error_set(&b->error, TUTTI_NO_MEMORY, "no memory for the description of the group");
        return false;
    }
    return tutti_group_describe(b->group, *text, length + 1, NULL, &b->error) == TUTTI_OK;
}

bool tti_bench_machine_create(struct tti_bench *b, struct tti_bench_machine *machine)
{
    struct tti_system_info system;
    memset(machine, 0, sizeof(*machine));
    if (!count_cpus(b, machine)) {
        return false;
    }
    tti_info_system(&system);
    memcpy(machine->cpu, system.cpu, sizeof(machine->cpu));
    memcpy(machine->kernel, system.kernel, sizeof(machine->kernel));
    machine->isa = tti_kernels_isa();
    machine->clock_ns = tti_bench_clock_ns();
    return describe(b, &machine->description);
}

void tti_bench_machine_destroy(struct tti_bench_machine *machine)
{
    free(machine->description);
    machine->description = NULL;
}
