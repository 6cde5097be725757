/* Spawns a child process that sleeps until it is killed, or until its parent exits. */
#ifndef GS_TESTS_LOOP_SPAWN_H
#define GS_TESTS_LOOP_SPAWN_H

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

static inline pid_t spawn_paused(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent)
        pause();
    _exit(0);
}

#endif
