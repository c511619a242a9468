/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of many ranks on one terminal. A line is shown when it is complete, so that lines never mix; a very long one
 * is cut into parts, never inside a UTF-8 character. One rank (0, or the only one shown) may also draw progress bars
 * and prompts: its carriage returns and unfinished lines pass at once, and when another rank's line comes in between,
 * the unfinished line is wiped and drawn again below. Of the other ranks' carriage returns only the last state of the
 * line is kept, as a terminal would show it.
 *
 * Writing is done in parts of at most PIPE_BUF after poll has promised room, which never blocks although the
 * terminal's own mode is left alone (it is shared with the shell). When the reader of our output has ended, or the
 * output cannot be written for another reason, the ranks' pipes are closed too, so that they learn it.
 */
#include "run/job/output.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_CAPACITY 32768
#define QUEUE_LIMIT   (1 << 20) /* beyond this, ranks are not read until the terminal has caught up */
#define REDRAW_LIMIT  160       /* longer unfinished lines may have wrapped and are ended instead of redrawn */

struct stream {
    struct tti_stream_info info;
    struct sink *sink;
    char *text; /* the line that is not complete yet */
    size_t length;
    size_t shown;   /* how much of it is on the terminal already */
    bool fresh;     /* the next visible byte needs the prefix */
    bool broken_up; /* a part of this line was ended by us: if nothing follows, there is nothing to end */
};

/* Where lines go: one per file, so that stdout and stderr on the same terminal keep their order. */
struct sink {
    int fd;
    bool tty;
    bool gone; /* no process reads any more, or it cannot be written */
    char *queue;
    size_t start;
    size_t end;
    size_t capacity;
    struct stream *open; /* whose unfinished line stands at the cursor */
};

struct tti_output {
    struct sink sinks[2];
    struct sink *by_target[3];
    struct stream *streams;
    size_t count;
    size_t capacity;
    bool prefix;
    bool lost; /* lines, for another reason than that their reader has ended */
};

static void sink_write(struct sink *sink, const char *bytes, size_t length)
{
    if (sink->gone || length == 0) {
        return;
    }
    if (sink->start > 0 && sink->start == sink->end) {
        sink->start = sink->end = 0;
    }
    if (sink->capacity - sink->end < length) {
        size_t used = sink->end - sink->start;
        size_t wanted = (used + length) * 2;
        char *grown = malloc(wanted);
        if (!grown) {
            return; /* a lost line is better than a lost job */
        }
        if (used > 0) {
            memcpy(grown, sink->queue + sink->start, used);
        }
        free(sink->queue);
        sink->queue = grown;
        sink->capacity = wanted;
        sink->start = 0;
        sink->end = used;
    }
    memcpy(sink->queue + sink->end, bytes, length);
    sink->end += length;
}

static void sink_text(struct sink *sink, const char *text)
{
    sink_write(sink, text, strlen(text));
}

static void write_prefix(const struct tti_output *output, const struct stream *stream)
{
    if (output->prefix) {
        char text[24];
        snprintf(text, sizeof(text), "[%d] ", stream->info.rank);
        sink_text(stream->sink, text);
    }
}

/* Shows bytes of a progress stream: the prefix stands before the first visible byte of a line and after each return. */
static void show_bytes(const struct tti_output *output, struct stream *stream, const char *bytes, size_t length)
{
    for (size_t at = 0; at < length;) {
        const char *cr = memchr(bytes + at, '\r', length - at);
        size_t end = cr ? (size_t)(cr - bytes) : length;
        if (end > at) {
            if (stream->fresh) {
                write_prefix(output, stream);
                stream->fresh = false;
            }
            sink_write(stream->sink, bytes + at, end - at);
        }
        if (cr) {
            sink_text(stream->sink, "\r");
            stream->fresh = true;
            end++;
        }
        at = end;
    }
}

/* Makes room for the line of another stream: returns the stream whose unfinished line must be drawn again
 * afterwards. */
static struct stream *interrupt_open(struct sink *sink, const struct stream *writer)
{
    struct stream *open = sink->open;
    if (!open || open == writer) {
        return NULL;
    }
    sink->open = NULL;
    open->fresh = true;
    if (sink->tty && open->length <= REDRAW_LIMIT) {
        sink_text(sink, "\r\033[K");
        open->shown = 0;
        return open;
    }
    sink_text(sink, "\n");
    open->broken_up = true;
    return NULL;
}

/* Shows the unfinished line of a progress stream and forgets what a carriage return has made obsolete. */
static void show_unfinished(struct tti_output *output, struct stream *stream)
{
    struct stream *redraw = interrupt_open(stream->sink, stream);
    show_bytes(output, stream, stream->text + stream->shown, stream->length - stream->shown);
    stream->shown = stream->length;
    stream->sink->open = stream;
    stream->broken_up = false; /* the line goes on behind what is shown now */
    if (redraw) {
        /* Two unfinished lines cannot stand at one cursor; the earlier one comes back with its next byte. */
        redraw->shown = 0;
    }
    size_t keep = stream->length;
    while (keep > 0 && !(stream->text[keep - 1] == '\r' && keep < stream->length)) {
        keep--;
    }
    memmove(stream->text, stream->text + keep, stream->length - keep);
    stream->length -= keep;
    stream->shown -= keep;
}

/* Of "10%\r20%\r30%" what a terminal would show at the end: "30%". A return at the very end stays ("text\r\n"). */
static const char *last_state(const char *line, size_t *length)
{
    size_t at = *length;
    while (at > 0 && line[at - 1] == '\r') {
        at--;
    }
    while (at > 0 && line[at - 1] != '\r') {
        at--;
    }
    *length -= at;
    return line + at;
}

/* Shows the first `length` bytes of the line buffer as one line; `real` = the rank ended it, not we. */
static void finish_line(struct tti_output *output, struct stream *stream, size_t length, bool real)
{
    struct sink *sink = stream->sink;
    bool nothing_left = stream->broken_up && length == stream->shown;
    if (stream->info.show && !nothing_left) {
        struct stream *redraw = interrupt_open(sink, stream);
        if (stream->info.progress) {
            bool bare = length == 0 && stream->fresh;
            show_bytes(output, stream, stream->text + stream->shown, length - stream->shown);
            if (bare) {
                write_prefix(output, stream);
            }
        } else {
            size_t visible = length;
            const char *text = last_state(stream->text, &visible);
            write_prefix(output, stream);
            sink_write(sink, text, visible);
        }
        sink_text(sink, "\n");
        if (redraw) {
            show_unfinished(output, redraw);
        }
    }
    if (sink->open == stream) {
        sink->open = NULL;
    }
    stream->fresh = true;
    stream->broken_up = !real;
    stream->shown = 0;
}

static void consume(struct stream *stream, size_t length)
{
    memmove(stream->text, stream->text + length, stream->length - length);
    stream->length -= length;
}

/* How many of `length` bytes remain when a character that is cut off at their end is left out. */
static size_t whole_characters(const char *text, size_t length)
{
    for (size_t tail = 1; tail <= 4 && tail <= length; tail++) {
        unsigned char byte = (unsigned char)text[length - tail];
        if ((byte & 0xC0) != 0x80) {
            size_t needed = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
            return tail < needed ? length - tail : length;
        }
    }
    return length; /* not UTF-8 */
}

/* The buffer is full and there is no end of line: shows what it holds as a line of its own. */
static void cut_line(struct tti_output *output, struct stream *stream)
{
    size_t length = whole_characters(stream->text, stream->length);
    length = length < stream->shown ? stream->shown : length;
    finish_line(output, stream, length, false);
    consume(stream, length);
}

static void take_bytes(struct tti_output *output, struct stream *stream, const char *bytes, size_t length)
{
    while (length > 0) {
        const char *newline = memchr(bytes, '\n', length);
        size_t part = newline ? (size_t)(newline - bytes) : length;
        size_t room = LINE_CAPACITY - stream->length;
        bool complete = newline && part <= room;
        part = part < room ? part : room;
        memcpy(stream->text + stream->length, bytes, part);
        stream->length += part;
        if (complete) {
            finish_line(output, stream, stream->length, true);
            stream->length = 0;
            part++;
        } else if (stream->length == LINE_CAPACITY) {
            cut_line(output, stream);
        }
        bytes += part;
        length -= part;
    }
    if (stream->info.show && stream->info.progress && stream->length > stream->shown &&
        memchr(stream->text, '\r', stream->length)) {
        show_unfinished(output, stream);
    }
}

static void close_stream(struct stream *stream)
{
    if (stream->info.fd >= 0) {
        close(stream->info.fd);
    }
    if (stream->info.log_fd >= 0) {
        close(stream->info.log_fd);
    }
    stream->info.fd = -1;
    stream->info.log_fd = -1;
}

static void end_stream(struct tti_output *output, struct stream *stream)
{
    if (stream->info.fd >= 0 && (stream->length > 0 || stream->sink->open == stream)) {
        finish_line(output, stream, stream->length, true);
        stream->length = 0;
    }
    close_stream(stream);
}

static void write_log(struct tti_output *output, struct stream *stream, const char *bytes, size_t length)
{
    while (stream->info.log_fd >= 0 && length > 0) {
        ssize_t written = write(stream->info.log_fd, bytes, length);
        if (written < 0 && errno != EINTR) {
            tti_output_message(output, "rank %d: its log of %s ends here, since it cannot be written: %s",
                               stream->info.rank, stream->info.target == STDERR_FILENO ? "stderr" : "stdout",
                               strerror(errno));
            close(stream->info.log_fd); /* the job is worth more than its log */
            stream->info.log_fd = -1;
            return;
        }
        if (written > 0) {
            bytes += written;
            length -= (size_t)written;
        }
    }
}

/* One read; false when there is nothing more for now. */
static bool read_stream(struct tti_output *output, struct stream *stream)
{
    char bytes[16384];
    ssize_t length = read(stream->info.fd, bytes, sizeof(bytes));
    if (length > 0) {
        write_log(output, stream, bytes, (size_t)length);
        take_bytes(output, stream, bytes, (size_t)length);
        return true;
    }
    if (length == 0 || (errno != EAGAIN && errno != EINTR)) {
        end_stream(output, stream);
    }
    return false;
}

static void lose_sink(struct tti_output *output, struct sink *sink, int errnum)
{
    sink->gone = true;
    sink->open = NULL;
    sink->start = sink->end = 0;
    for (size_t i = 0; i < output->count; i++) {
        struct stream *stream = &output->streams[i];
        if (stream->sink == sink && stream->info.show) {
            stream->info.show = false;
            if (stream->info.log_fd < 0) {
                close_stream(stream);
            }
        }
    }
    if (errnum != EPIPE) {
        output->lost = true;
        tti_output_message(output, "standard %s cannot be written: %s", sink->fd == STDOUT_FILENO ? "output" : "error",
                           strerror(errnum));
    }
}

static void flush_sink(struct tti_output *output, struct sink *sink)
{
    struct pollfd room = {.fd = sink->fd, .events = POLLOUT};
    for (int i = 0; i < 64 && sink->end > sink->start && poll(&room, 1, 0) > 0; i++) {
        size_t length = sink->end - sink->start;
        if (length > PIPE_BUF) { /* in whole lines, for others may write there as well */
            const char *end = memrchr(sink->queue + sink->start, '\n', PIPE_BUF);
            length = end ? (size_t)(end + 1 - (sink->queue + sink->start)) : PIPE_BUF;
        }
        ssize_t written = write(sink->fd, sink->queue + sink->start, length);
        if (written > 0) {
            sink->start += (size_t)written;
        } else if (written < 0 && errno != EINTR && errno != EAGAIN) {
            lose_sink(output, sink, errno);
        }
    }
}

struct tti_output *tti_output_new(size_t streams, bool prefix)
{
    struct tti_output *output = calloc(1, sizeof(*output));
    if (!output) {
        return NULL;
    }
    output->streams = calloc(streams ? streams : 1, sizeof(*output->streams));
    if (!output->streams) {
        free(output);
        return NULL;
    }
    output->capacity = streams;
    output->prefix = prefix;
    struct stat facts[2];
    for (int i = 0; i < 2; i++) {
        output->sinks[i].fd = i + 1;
        output->sinks[i].tty = isatty(i + 1) == 1;
        output->sinks[i].gone = fstat(i + 1, &facts[i]) != 0;
        output->by_target[i + 1] = &output->sinks[i];
    }
    bool same = !output->sinks[0].gone && !output->sinks[1].gone && facts[0].st_dev == facts[1].st_dev &&
                facts[0].st_ino == facts[1].st_ino;
    if (same) {
        output->by_target[STDERR_FILENO] = &output->sinks[0];
    }
    return output;
}

void tti_output_free(struct tti_output *output)
{
    if (!output) {
        return;
    }
    for (size_t i = 0; i < output->count; i++) {
        close_stream(&output->streams[i]);
        free(output->streams[i].text);
    }
    free(output->streams);
    free(output->sinks[0].queue);
    free(output->sinks[1].queue);
    free(output);
}

bool tti_output_add(struct tti_output *output, const struct tti_stream_info *info)
{
    struct stream *stream = &output->streams[output->count];
    *stream = (struct stream){.info = *info, .sink = output->by_target[info->target], .fresh = true};
    output->count++;
    stream->text = malloc(LINE_CAPACITY);
    return stream->text != NULL;
}

void tti_output_message(struct tti_output *output, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    struct sink *sink = output->by_target[STDERR_FILENO];
    struct stream *redraw = interrupt_open(sink, NULL);
    sink_text(sink, "tutti run: ");
    sink_text(sink, text);
    sink_text(sink, "\n");
    if (redraw) {
        show_unfinished(output, redraw);
    }
}

size_t tti_output_poll(const struct tti_output *output, struct pollfd *entries)
{
    for (size_t i = 0; i < output->count; i++) {
        const struct stream *stream = &output->streams[i];
        const bool crowded = stream->info.show && stream->sink->end - stream->sink->start > QUEUE_LIMIT;
        entries[i] = (struct pollfd){.fd = crowded ? -1 : stream->info.fd, .events = POLLIN}; /* poll passes over -1 */
    }
    for (size_t i = 0; i < 2; i++) {
        const struct sink *sink = &output->sinks[i];
        entries[output->count + i] = (struct pollfd){.fd = sink->end > sink->start ? sink->fd : -1, .events = POLLOUT};
    }
    return output->count + 2;
}

void tti_output_handle(struct tti_output *output, const struct pollfd *entries)
{
    for (size_t i = 0; i < output->count; i++) {
        struct stream *stream = &output->streams[i];
        if (entries[i].revents != 0 && stream->info.fd >= 0) {
            read_stream(output, stream);
        }
    }
    for (size_t i = 0; i < 2; i++) {
        flush_sink(output, &output->sinks[i]);
    }
}

static bool is_partial(const struct stream *stream)
{
    /* A file gets complete lines only: no reader waits for a prompt there. */
    const struct sink *sink = stream->sink;
    return stream->info.show && stream->info.progress && sink->tty && stream->length > stream->shown &&
           (!sink->open || sink->open == stream);
}

bool tti_output_has_partial(const struct tti_output *output)
{
    for (size_t i = 0; i < output->count; i++) {
        if (is_partial(&output->streams[i])) {
            return true;
        }
    }
    return false;
}

void tti_output_show_partial(struct tti_output *output)
{
    for (size_t i = 0; i < output->count; i++) {
        if (is_partial(&output->streams[i])) {
            show_unfinished(output, &output->streams[i]);
        }
    }
}

void tti_output_drain(struct tti_output *output)
{
    for (size_t i = 0; i < output->count; i++) {
        struct stream *stream = &output->streams[i];
        while (stream->info.fd >= 0 && read_stream(output, stream)) {
            continue;
        }
        end_stream(output, stream);
    }
}

bool tti_output_pending(const struct tti_output *output)
{
    return output->sinks[0].end > output->sinks[0].start || output->sinks[1].end > output->sinks[1].start;
}

bool tti_output_lost(const struct tti_output *output)
{
    return output->lost;
}
