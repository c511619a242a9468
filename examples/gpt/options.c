/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include "train.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: tutti run -n RANKS -- gpt COMMAND [OPTION]...\n"
    "A GPT whose layers are split over the ranks, as Megatron-LM does.\n"
    "\n"
    "Commands:\n"
    "  train    train on a text\n"
    "  verify   check gradients by finite differences, and losses against those of one rank\n"
    "\n"
    "How the ranks share the work:\n"
    "  --tensor N            ranks that share the layers; the others are replicas, which share\n"
    "                        the batch (default: all ranks share the layers)\n"
    "  --sequence-parallel   share the tokens between the layers, too\n"
    "  --backend NAME        shm, mpi, ... (default: what fits, or TUTTI_BACKEND)\n"
    "\n"
    "The model:\n"
    "  --shape NAME          tiny, small, gpt2, llama-1b or llama-8b (default: small; verify: tiny)\n"
    "  --layers N  --hidden N  --heads N  --kv-heads N  --mlp N  --vocabulary N  --context N\n"
    "                        what differs from that shape\n"
    "  --seed N              of the first parameters and of the order of the text (default 1)\n"
    "\n"
    "Training:\n"
    "  --text PATH           a text, or a folder of texts (default " TRAIN_TEXT "); verify makes one\n"
    "  --steps N             (default 1000; verify: 200)\n"
    "  --batch N             sequences a step, all ranks together (default 12)\n"
    "  --lr X                learning rate at its highest (default 0.003)\n"
    "  --terminal DEV        draw the progress bar there (default: standard output if it is a terminal)\n"
    "\n"
    "  --help                print this and stop\n"
    "Exit status: 0, 1 after a failure, 2 for bad input.\n";

__attribute__((format(printf, 2, 3))) static void mistake(struct options *o, const char *format, ...)
{
    if (o->why[0]) {
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(o->why, sizeof(o->why), format, args);
    va_end(args);
}

static int64_t whole_number(struct options *o, const char *option, const char *text, int64_t least, int64_t most)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most) {
        mistake(o, "--%s takes a number from %lld to %lld, not \"%.40s\"", option, (long long)least, (long long)most,
                text);
        return least;
    }
    return value;
}

static double number(struct options *o, const char *option, const char *text, double most)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value <= 0 || value > most) {
        mistake(o, "--%s takes a number above 0 and up to %g, not \"%.40s\"", option, most, text);
        return most;
    }
    return value;
}

static const struct option known[] = {
    {"layers", required_argument, NULL, 'L'},
    {"hidden", required_argument, NULL, 'H'},
    {"heads", required_argument, NULL, 'A'},
    {"kv-heads", required_argument, NULL, 'K'},
    {"mlp", required_argument, NULL, 'M'},
    {"vocabulary", required_argument, NULL, 'V'},
    {"context", required_argument, NULL, 'C'},
    {"shape", required_argument, NULL, 'S'},
    {"tensor", required_argument, NULL, 't'},
    {"sequence-parallel", no_argument, NULL, 'q'},
    {"steps", required_argument, NULL, 's'},
    {"batch", required_argument, NULL, 'b'},
    {"lr", required_argument, NULL, 'l'},
    {"seed", required_argument, NULL, 'e'},
    {"backend", required_argument, NULL, 'k'},
    {"text", required_argument, NULL, 'd'},
    {"terminal", required_argument, NULL, 'T'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* The sizes that were given replace those of the named shape. */
static void set_shape(struct options *o, const char *name, const struct shape *given)
{
    if (!shape_named(name, &o->shape)) {
        mistake(o, "there is no shape \"%.40s\"; try tiny, small, gpt2, llama-1b or llama-8b", name);
        return;
    }
    struct shape *s = &o->shape;
    s->layers = given->layers ? given->layers : s->layers;
    s->hidden = given->hidden ? given->hidden : s->hidden;
    s->heads = given->heads ? given->heads : s->heads;
    s->kv_heads = given->kv_heads ? given->kv_heads : given->heads ? given->heads : s->kv_heads;
    s->mlp = given->mlp ? given->mlp : s->mlp;
    s->vocabulary = given->vocabulary ? given->vocabulary : s->vocabulary;
    s->context = given->context ? given->context : s->context;
}

static void parse_option(struct options *o, int option, struct shape *given, const char **shape)
{
    switch (option) {
    case 'L':
        given->layers = (int32_t)whole_number(o, "layers", optarg, 1, 1000);
        break;
    case 'H':
        given->hidden = (int32_t)whole_number(o, "hidden", optarg, 1, 65536);
        break;
    case 'A':
        given->heads = (int32_t)whole_number(o, "heads", optarg, 1, 65536);
        break;
    case 'K':
        given->kv_heads = (int32_t)whole_number(o, "kv-heads", optarg, 1, 65536);
        break;
    case 'M':
        given->mlp = (int32_t)whole_number(o, "mlp", optarg, 1, 262144);
        break;
    case 'V':
        given->vocabulary = (int32_t)whole_number(o, "vocabulary", optarg, 256, 1 << 20);
        break;
    case 'C':
        given->context = (int32_t)whole_number(o, "context", optarg, 1, 16384);
        break;
    case 'S':
        *shape = optarg;
        break;
    case 't':
        o->tensor = (int32_t)whole_number(o, "tensor", optarg, 1, 65536);
        break;
    case 'q':
        o->sequence = true;
        break;
    case 's':
        o->steps = (int32_t)whole_number(o, "steps", optarg, 1, 100000000);
        break;
    case 'b':
        o->batch = (int32_t)whole_number(o, "batch", optarg, 1, 4096);
        break;
    case 'l':
        o->rate = number(o, "lr", optarg, 10);
        break;
    case 'e':
        o->seed = (uint64_t)whole_number(o, "seed", optarg, 0, INT64_MAX);
        break;
    case 'k':
        o->backend = optarg;
        break;
    case 'd':
        o->text = optarg;
        break;
    case 'T':
        o->terminal = optarg;
        break;
    case 'h':
        o->help = true;
        break;
    }
}

void options_parse(struct options *o, int argc, char **argv)
{
    *o = (struct options){.batch = 12, .rate = 0.003, .seed = 1};
    struct shape given = {0};
    const char *shape = NULL;
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", known, NULL)) != -1) {
        if (option == ':') {
            mistake(o, "%.40s needs a value; try --help", argv[optind - 1]);
        } else if (option == '?') {
            mistake(o, "unknown option \"%.40s\"; try --help", argv[optind - 1]);
        } else {
            parse_option(o, option, &given, &shape);
        }
    }
    o->command = optind < argc ? argv[optind++] : "";
    if (optind < argc) {
        mistake(o, "unexpected argument \"%.40s\"; try --help", argv[optind]);
    }
    set_shape(o, shape ? shape : strcmp(o->command, "verify") == 0 ? "tiny" : "small", &given);
}

void options_print_help(void)
{
    fputs(help, stdout);
}
