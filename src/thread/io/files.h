/* Calls on regular files, as io.c needs them. */
#ifndef GS_THREAD_FILES_H
#define GS_THREAD_FILES_H

#include "thread/io/io_call.h"

/* Transfer at the file offset. Returns what gs_readv and gs_writev return. */
ssize_t gs_file_transfer(const struct io_call *request, uint64_t deadline_ns);

/* The lock of the file offset of a regular file. */
struct gs_mutex *gs_file_position(const struct opened *file);

/* Called when no thread is in a call: reset the locks of file offsets. */
void gs_files_reset(void);

#endif
