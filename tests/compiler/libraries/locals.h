/* A library with thread-local variables (locals.c). */
#ifndef GS_TEST_LOCALS_H
#define GS_TEST_LOCALS_H

/* One that the program reaches, too. */
extern _Thread_local int shared_local;

/* One of the program's that the library reaches. */
extern _Thread_local int programs_local;

/* Counts the calls of the thread, each of which waits. */
int locals_count(int calls);

/* Add the numbers of one thread in its own variable, with a call of the function between. */
long locals_sum(long number, void (*between)(void));

/* A first value, a large one, and what the library set when it started, in the first thread. */
int locals_first(void);
int locals_started(void);

/* The sum of what the function returns in kernel threads of the library. */
int locals_elsewhere(int (*function)(void));

/* The thread waits until another one has changed its variable. */
void locals_await(void);
void locals_wake(void);

#endif
