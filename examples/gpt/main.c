/* SPDX-License-Identifier: BSD-3-Clause */
#include "parallel.h"
#include "parameters.h"

int main(void)
{
    return 0;
}
