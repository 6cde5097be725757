/* Asks epoll about many descriptors at once, through io_uring, whether their numbers still mean the
 * files that are registered: a sixth cheaper than a system call each. Without io_uring, or on a
 * kernel whose io_uring has no such operation any more, nothing is asked. */
#ifndef GS_LOOP_VERIFIER_H
#define GS_LOOP_VERIFIER_H

struct gs_loop;
struct verifier;

/* How many are asked about at a time. */
#define VERIFIER_BATCH 64

/* Clears SLOT_VERIFY of those of the VERIFIER_BATCH descriptors that are registered now, as what
 * their slots say. fds NULL: only opens the ring. *verifier: NULL at first. */
void gs_loop_verify(struct gs_loop *loop, struct verifier **verifier, int set, const int *fds);

/* NULL is accepted. */
void gs_loop_free_verifier(struct verifier *verifier);

#endif
