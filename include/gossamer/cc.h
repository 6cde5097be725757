/* What a program tells `gossamer cc`, the compiler of threads into events (gossamer-cc(1)).
 *
 *     GS_ATOMIC static void move(struct account *from, struct account *to, long sum)
 *     {
 *         from->balance -= sum;
 *         to->balance += sum;
 *     }
 */
#ifndef GOSSAMER_CC_H
#define GOSSAMER_CC_H

/* Marks a function that must not wait, because it leaves shared data inconsistent while it runs. If
 * the function, or one that it calls, may wait, `gossamer cc` fails and prints the calls that lead
 * to the wait. With one worker, no other thread runs until the function returns. Other compilers
 * ignore the mark. */
#ifdef __clang__
#define GS_ATOMIC __attribute__((annotate("gs_atomic")))
#else
#define GS_ATOMIC
#endif

#endif
