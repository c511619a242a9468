/* SPDX-License-Identifier: BSD-3-Clause */
/* A table of all options: the commands share it, and each takes what it needs. */
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
    "  train     train on a text\n"
    "  generate  continue a prompt by a trained model\n"
    "  decode    measure how long a token takes, with random weights, engine by engine in turn\n"
    "  verify    check gradients by finite differences, and losses against those of one rank\n"
    "\n"
    "How the ranks share the work:\n"
    "  --tensor N            ranks that share the layers; the others are replicas, which share\n"
    "                        the batch (default: all ranks share the layers)\n"
    "  --sequence-parallel   share the tokens between the layers, too\n"
    "  --backend NAME        shm, mpi, ... (default: what fits, or TUTTI_BACKEND)\n"
    "\n"
    "The model:\n"
    "  --shape NAME          tiny, small, gpt2, llama-1b or llama-8b (default: small; verify: tiny; decode: gpt2)\n"
    "  --layers N  --hidden N  --heads N  --kv-heads N  --mlp N  --vocabulary N  --context N\n"
    "                        what differs from that shape\n"
    "  --seed N              of the first parameters, of the order of the text, of generated text (default 1)\n"
    "\n"
    "Training:\n"
    "  --text PATH           a text, or a folder of texts (default " TRAIN_TEXT "); verify makes one\n"
    "  --steps N             (default 1000; verify: 200)\n"
    "  --batch N             sequences a step, all ranks together (default 12)\n"
    "  --lr X                learning rate at its highest (default 0.003)\n"
    "  --wire TYPE           how the replicas' gradients travel: full, bf16, half of the bytes, or fp8, a quarter "
    "(default full)\n"
    "  --terminal DEV        draw the progress bar there (default: standard output if it is a terminal)\n"
    "  --checkpoint FILE     write the model there at the end, and before, every\n"
    "  --save-every N        steps (default 200)\n"
    "  --resume              go on from that checkpoint, with any number of ranks\n"
    "  --survive             if ranks die, the others go on from the last checkpoint (tutti run --keep-going)\n"
    "  --kill RANK --at STEP that rank kills itself in that step, to try --survive\n"
    "\n"
    "Generation:\n"
    "  --checkpoint FILE     the model\n"
    "  --prompt TEXT         UTF-8 (default: a new line)\n"
    "  --tokens N            bytes to write (default 400)\n"
    "  --temperature X       0: always the most probable byte; 1: as the model says (default 0.7)\n"
    "  --weights TYPE        f32, or bf16: half the memory, with rounded weights (default f32)\n"
    "  --check               compare all logits and the text with those of one rank; status 1 if they differ\n"
    "  --terminal DEV        write the text there as it comes (default: standard output)\n"
    "\n"
    "Measuring:\n"
    "  --weights TYPE        f32 or bf16 (default f32)\n"
    "  --engines LIST        names of backends, heap (the default one, sums in memory of tutti_alloc), one (rank 0\n"
    "                        alone) (default one,auto)\n"
    "  --rounds N --tokens N tokens of each engine in each round (default 5 and 16)\n"
    "  --position N          tokens in the cache before the first one (default 128)\n"
    "  --csv                 print a table for programs\n"
    "\n"
    "  --help                print this and stop\n"
    "Exit status: 0, 1 after a failure, 2 for bad input.\n";

enum kind { FLAG, TEXT, INTEGER, LONG, NUMBER };

struct row {
    const char *name;
    enum kind kind;
    size_t offset; /* of the field in struct options */
    double least, most;
};

#define AT(field) offsetof(struct options, field)

static const struct row rows[] = {
    {"layers", INTEGER, AT(shape.layers), 1, 1000},
    {"hidden", INTEGER, AT(shape.hidden), 1, 65536},
    {"heads", INTEGER, AT(shape.heads), 1, 65536},
    {"kv-heads", INTEGER, AT(shape.kv_heads), 1, 65536},
    {"mlp", INTEGER, AT(shape.mlp), 1, 262144},
    {"vocabulary", INTEGER, AT(shape.vocabulary), 256, 1 << 20},
    {"context", INTEGER, AT(shape.context), 1, 16384},
    {"shape", TEXT, AT(shape_name), 0, 0},
    {"tensor", INTEGER, AT(tensor), 1, 65536},
    {"sequence-parallel", FLAG, AT(sequence), 0, 0},
    {"steps", INTEGER, AT(steps), 1, 1e8},
    {"batch", INTEGER, AT(batch), 1, 4096},
    {"lr", NUMBER, AT(rate), 1e-9, 10},
    {"wire", TEXT, AT(wire), 0, 0},
    {"seed", LONG, AT(seed), 0, 1e18},
    {"backend", TEXT, AT(backend), 0, 0},
    {"text", TEXT, AT(text), 0, 0},
    {"terminal", TEXT, AT(terminal), 0, 0},
    {"checkpoint", TEXT, AT(checkpoint), 0, 0},
    {"save-every", INTEGER, AT(save_every), 1, 1e8},
    {"resume", FLAG, AT(resume), 0, 0},
    {"survive", FLAG, AT(survive), 0, 0},
    {"kill", INTEGER, AT(kill), 0, 65536},
    {"at", INTEGER, AT(at), 1, 1e8},
    {"prompt", TEXT, AT(prompt), 0, 0},
    {"tokens", INTEGER, AT(tokens), 1, 1e6},
    {"temperature", NUMBER, AT(temperature), 0, 100},
    {"weights", TEXT, AT(weights), 0, 0},
    {"check", FLAG, AT(check), 0, 0},
    {"engines", TEXT, AT(engines), 0, 0},
    {"rounds", INTEGER, AT(rounds), 1, 10000},
    {"position", INTEGER, AT(position), 0, 16384},
    {"csv", FLAG, AT(csv), 0, 0},
    {"help", FLAG, AT(help), 0, 0},
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

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

/* Stores a whole number or another one. */
static void set_number(struct options *o, const struct row *row, const char *text)
{
    char *field = (char *)o + row->offset;
    char *end;
    errno = 0;
    const long long whole = strtoll(text, &end, 10);
    const double value = row->kind == NUMBER ? strtod(text, &end) : (double)whole;
    if (errno || end == text || *end || !(value >= row->least && value <= row->most)) {
        mistake(o, "--%s takes a number from %.15g to %.15g, not \"%.40s\"", row->name, row->least, row->most, text);
    } else if (row->kind == NUMBER) {
        *(double *)field = value;
    } else if (row->kind == LONG) {
        *(int64_t *)field = whole;
    } else {
        *(int32_t *)field = (int32_t)whole;
    }
}

static void set_option(struct options *o, const struct row *row)
{
    char *field = (char *)o + row->offset;
    if (row->kind == FLAG) {
        *(bool *)field = true;
    } else if (row->kind == TEXT) {
        *(const char **)field = optarg;
    } else {
        set_number(o, row, optarg);
    }
}

/* The sizes that were given replace those of the named shape. */
static void set_shape(struct options *o, const char *usual)
{
    const struct shape given = o->shape;
    o->shape_given = o->shape_name || memcmp(&given, &(struct shape){0}, sizeof(given)) != 0;
    o->shape_name = o->shape_name ? o->shape_name : usual;
    if (!shape_named(o->shape_name, &o->shape)) {
        mistake(o, "there is no shape \"%.40s\"; try tiny, small, gpt2, llama-1b or llama-8b", o->shape_name);
        return;
    }
    struct shape *s = &o->shape;
    s->layers = given.layers ? given.layers : s->layers;
    s->hidden = given.hidden ? given.hidden : s->hidden;
    s->heads = given.heads ? given.heads : s->heads;
    s->kv_heads = given.kv_heads ? given.kv_heads : given.heads ? given.heads : s->kv_heads;
    s->mlp = given.mlp ? given.mlp : s->mlp;
    s->vocabulary = given.vocabulary ? given.vocabulary : s->vocabulary;
    s->context = given.context ? given.context : s->context;
}

void options_parse(struct options *o, int argc, char **argv)
{
    struct option known[ROWS + 1];
    *o = (struct options){.batch = 12,
                          .rate = 0.003,
                          .seed = 1,
                          .save_every = 200,
                          .kill = -1,
                          .at = -1,
                          .prompt = "\n",
                          .temperature = 0.7,
                          .weights = "f32",
                          .wire = "full",
                          .rounds = 5,
                          .position = 128};
    for (int i = 0; i < ROWS; i++) {
        known[i] = (struct option){rows[i].name, rows[i].kind == FLAG ? no_argument : required_argument, NULL, i};
    }
    known[ROWS] = (struct option){0};
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":", known, NULL)) != -1;) {
        if (option == ':') {
            mistake(o, "%.40s needs a value; try --help", argv[optind - 1]);
        } else if (option == '?') {
            mistake(o, "unknown option \"%.40s\"; try --help", argv[optind - 1]);
        } else {
            set_option(o, &rows[option]);
        }
    }
    o->command = optind < argc ? argv[optind++] : "";
    if (optind < argc) {
        mistake(o, "unexpected argument \"%.40s\"; try --help", argv[optind]);
    }
    if (strcmp(o->weights, "f32") != 0 && strcmp(o->weights, "bf16") != 0) {
        mistake(o, "--weights takes f32 or bf16, not \"%.40s\"", o->weights);
    }
    if (strcmp(o->wire, "full") != 0 && strcmp(o->wire, "bf16") != 0 && strcmp(o->wire, "fp8") != 0) {
        mistake(o, "--wire takes full, bf16 or fp8, not \"%.40s\"", o->wire);
    }
    set_shape(o, strcmp(o->command, "verify") == 0 ? "tiny" : strcmp(o->command, "decode") == 0 ? "gpt2" : "small");
}

void options_print_help(void)
{
    fputs(help, stdout);
}
