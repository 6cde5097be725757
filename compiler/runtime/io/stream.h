/* Streams of the C library on descriptors that may block: a call that would wait for one is a
 * sequence of steps, between which the thread waits, and keeps other threads from the stream. */
#ifndef GS_COMPILER_STREAM_H
#define GS_COMPILER_STREAM_H

#include "compiler/runtime/threads/thread.h"

#include <stdio.h>

/* A call in steps. The thread keeps it in its progress. */
struct operation {
    FILE *file;
    size_t done; /* bytes */
    char *text;  /* what is written, if the call has made it; NULL: the caller has it */
    size_t size;
    int flags; /* of the stream before */
};

/* What a step leads to. LEAVE: the caller returns, and is called again. */
enum step { GO, LEAVE, FAILED };

/* Whether the C library's function can be called, which does not wait. Those that read or flush are
 * cancellation points if they look at the file. */
bool gs_cc_stream_is_direct(const struct thread *self, FILE *file);
bool gs_cc_stream_reads_directly(const struct thread *self, FILE *file);
bool gs_cc_stream_flushes_directly(const struct thread *self, FILE *file);

/* Whether a call begins, and no thread waits within one. */
bool gs_cc_stream_is_free(const struct thread *self);

/* Whether its descriptor never blocks, or it has none. */
bool gs_cc_stream_is_plain(FILE *file);

/* Begin the call, or continue it. Returns NULL: the caller must return. */
struct operation *gs_cc_stream_begin(struct thread *self, FILE *file);

/* In the child of a fork, which has no other thread: what others held is free. */
void gs_cc_streams_after_fork(const struct thread *self);

/* The call is complete; errno stays as it is. */
void gs_cc_stream_end(struct thread *self, struct operation *operation);

/* Until a byte can be read; until all that is in the buffer was written. FAILED: errno is set, and
 * the stream has its error indicator. */
enum step gs_cc_stream_await(struct thread *self, FILE *file);
enum step gs_cc_stream_flush(struct thread *self, FILE *file);

/* As fflush, of a stream of wide characters: a kernel thread of the pool converts them. */
int gs_cc_stream_flush_wide(struct thread *self, FILE *file);

/* As gs_cc_stream_flush, for what is not yet in the buffer of a stream without one. */
enum step gs_cc_stream_write(struct thread *self, struct operation *operation, const char *text);

#endif
