/* Which waits a signal interrupts. */
#ifndef GS_COMPILER_SIGNALS_H
#define GS_COMPILER_SIGNALS_H

#include "compiler/runtime/thread.h"

/* The thread stands for the process; its worker is the calling one. Called again after a fork. */
void gs_cc_signals_start(struct thread *thread);

/* A call begins to wait: signals that were handled before do not interrupt it. */
void gs_cc_signals_begin_wait(const struct thread *self);

/* Whether the call fails with EINTR. may_restart: only if a handler without SA_RESTART has run. */
bool gs_cc_is_interrupted(const struct thread *self, bool may_restart);

#endif
