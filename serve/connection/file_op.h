/* The operations of a load that need not wait. */
#ifndef GS_SERVE_FILE_OP_H
#define GS_SERVE_FILE_OP_H

#include <gossamer/http.h>

/* Carry out an operation if reading does not wait for a disk, as far as can be determined: a path
 * whose directories are in memory is opened, and what is in the page cache is read. Opening and the
 * attributes of a file may still wait for a file system of the network. Returns false
 * if it would wait, or if the kernel cannot tell. */
bool serve_file_op_try(const struct gs_http_file_op *op, int64_t *ret_result);

#endif
