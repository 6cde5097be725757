/* What the parts of the program of random threads share (program_fuzz.c). */
#ifndef GS_TESTS_COMPAT_PROGRAM_FUZZ_H
#define GS_TESTS_COMPAT_PROGRAM_FUZZ_H

#include <stdint.h>

/* A thread: what it does follows from its state. */
struct fuzz {
    uint64_t state;
    int depth;
};

/* Returns what does not depend on the schedule. */
struct fuzz_action {
    long (*perform)(struct fuzz *fuzz);
};

/* Groups of actions; an empty one is the end. */
extern const struct fuzz_action fuzz_waits[], fuzz_descriptors[], fuzz_ends[], fuzz_processes[];

void fuzz_start(void);
uint32_t fuzz_next(struct fuzz *fuzz);
void fuzz_fail(const char *function, int line, const char *expression);

#define EXPECT(expression_)                                                                        \
    do {                                                                                           \
        errno = 0;                                                                                 \
        if (!(expression_))                                                                        \
            fuzz_fail(__func__, __LINE__, #expression_);                                           \
    } while (0)

/* The call again while a signal interrupts it: those that no SA_RESTART restarts. */
#define RETRIED(call_)                                                                             \
    ({                                                                                             \
        long result_;                                                                              \
        do                                                                                         \
            result_ = (long)(call_);                                                               \
        while (result_ < 0 && errno == EINTR);                                                     \
        result_;                                                                                   \
    })

#endif
