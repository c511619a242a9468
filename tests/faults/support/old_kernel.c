/* SPDX-License-Identifier: BSD-3-Clause */
/* An older kernel, made of this one: a filter answers ENOSYS to what that one did not have. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "faults/support/round.h"

static const struct {
    unsigned missing;
    unsigned number;
} calls[] = {{MISSING_ROBUST_LISTS, SYS_set_robust_list},
             {MISSING_WAITV, 449},
             {MISSING_PIDFD, 434 /* pidfd_open */},
             {MISSING_MEMBARRIER, SYS_membarrier},
             {MISSING_PROCESS_READ, SYS_process_vm_readv}};

bool refuse(unsigned missing)
{
    struct sock_filter code[2 + 2 * sizeof(calls) / sizeof(calls[0])];
    unsigned short n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (missing & calls[i].missing) {
            code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 1);
            code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
        }
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = n, .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
