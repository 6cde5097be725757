/* The monitor's own table of descriptors (monitor_files.c). All but the first function are called
 * by the monitor. */
#ifndef GS_THREAD_MONITOR_FILES_H
#define GS_THREAD_MONITOR_FILES_H

#include <poll.h>

/* Called by the first worker's kernel thread, before the monitor starts. */
void gs_monitor_files_init(void);

/* Called first by the monitor, if there is one worker: leave the program's table, if the kernel
 * lets the monitor borrow descriptors from it. */
void gs_monitor_files_leave(void);

/* Poll descriptors of the program without waiting. Returns what poll returns. */
int gs_monitor_files_poll(struct pollfd *polls, unsigned count);

/* From the first call to the second, `fd` is the program's descriptor of that number. Negative: no
 * descriptor, nothing is done. */
void gs_monitor_files_borrow(int fd);
void gs_monitor_files_return(int fd);

#endif
