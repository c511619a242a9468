/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A GPT whose layers are split over ranks:
 *
 *     tutti run -n 2 -- gpt train
 *     tutti run -n 4 -- gpt train --tensor 2 --sequence-parallel --checkpoint model
 *     tutti run -n 2 -- gpt generate --checkpoint model
 *
 * Each file has one idea: parallel.h the tensor-parallel region, linear.h the layers that begin and end it, embedding.h
 * and loss.h the split vocabulary, gradients.h the replicas, block.h and model.h what they make together.
 */
#include "common/common.h"
#include "inference/decode.h"
#include "inference/generate.h"
#include "options.h"
#include "parallel.h"
#include "train.h"
#include "verify.h"

#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    int (*run)(tutti_group *world, const struct options *o);
};

static const struct command commands[] = {
    {"train", train_command},
    {"generate", generate_command},
    {"decode", decode_command},
    {"verify", verify_command},
};

static int run(tutti_group *world, struct options *o)
{
    if (o->help) {
        if (tutti_group_rank(world) == 0) {
            options_print_help();
        }
        return 0;
    }
    input_check(world, o->why);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(o->command, commands[i].name) == 0) {
            return commands[i].run(world, o);
        }
    }
    snprintf(o->why, sizeof(o->why), "%s%.40s%s; try --help", o->command[0] ? "there is no command \"" : "no command",
             o->command, o->command[0] ? "\"" : "");
    input_check(world, o->why);
    return 0;
}

int main(int argc, char **argv)
{
    struct options o;
    tutti_group *world;
    tutti_error error;
    setvbuf(stdout, NULL, _IOLBF, 0);
    options_parse(&o, argc, argv);
    must(tutti_init(TUTTI_CONFIG(.backend = o.backend), &world, &error), &error);
    const int status = run(world, &o);
    must(tutti_group_destroy(world, &error), &error);
    must(tutti_finalize(&error), &error);
    return status;
}
