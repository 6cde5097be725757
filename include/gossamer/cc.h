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

/* The function must not wait, since it leaves data that threads share inconsistent meanwhile. If it
 * may, by any of its calls, `gossamer cc` fails, and prints these. With one worker, no other thread
 * runs until the function returns. Other compilers ignore it. */
#ifdef __clang__
#define GS_ATOMIC __attribute__((annotate("gs_atomic")))
#else
#define GS_ATOMIC
#endif

#endif
