/* SPDX-License-Identifier: BSD-3-Clause */
/* Continues a prompt by a trained model. */
#ifndef EXAMPLES_GPT_INFERENCE_GENERATE_H
#define EXAMPLES_GPT_INFERENCE_GENERATE_H

#include "decoder.h"
#include "options.h"

/* What has been read and drawn: the prompt, then the text. */
struct sequence {
    int32_t *tokens;
    int64_t count;
    int64_t start; /* of the part that is in the decoder's cache */
};

/* Loads the model of o->checkpoint into a decoder. Ends the program if that fails. */
void generate_open(struct decoder *d, struct parameters *list, struct parallel *p, const struct options *o,
                   const struct shape *shape);

/* Puts the prompt into the sequence, and reads all of it but its last token. */
void sequence_read_prompt(struct decoder *d, struct sequence *s, const char *prompt);

/* Reads the last token, so that d->logits are those of the next one. */
void sequence_read_last(struct decoder *d, struct sequence *s);

/* The next token. */
int32_t sequence_choose(struct decoder *d, const struct options *o, const struct sequence *s);

/* The command `gpt generate`. Returns the exit status: 1 if --check fails. */
int generate_command(tutti_group *world, const struct options *o);

#endif
