/* The last argument of FUTEX_WAKE_OP (futex(2)): an operation on the second word, and a comparison
 * of what was there before; 4 bits for each, and 12 for each of their operands. */
#ifndef GS_BASE_FUTEX_OP_H
#define GS_BASE_FUTEX_OP_H

#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>

struct futex_op {
    unsigned operation, comparison;
    int32_t operand, compared;
};

/* Returns false if the kernel would not know it. */
static inline bool futex_op_decode(uint32_t encoded, struct futex_op *ret_op)
{
    *ret_op = (struct futex_op){
        .operation = encoded >> 28 & 7,
        .comparison = encoded >> 24 & 15,
        .operand = (int32_t)(encoded << 8) >> 20,
        .compared = (int32_t)(encoded << 20) >> 20,
    };
    if (encoded >> 28 & FUTEX_OP_OPARG_SHIFT)
        ret_op->operand = (int32_t)(1u << (ret_op->operand & 31));
    return ret_op->operation <= FUTEX_OP_XOR && ret_op->comparison <= FUTEX_OP_CMP_GE;
}

/* Change the word in one step. Returns what it was. */
static inline uint32_t futex_op_apply(const struct futex_op *op, uint32_t *word)
{
    uint32_t operand = (uint32_t)op->operand;
    switch (op->operation) {
    case FUTEX_OP_SET:
        return __atomic_exchange_n(word, operand, __ATOMIC_SEQ_CST);
    case FUTEX_OP_ADD:
        return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
    case FUTEX_OP_OR:
        return __atomic_fetch_or(word, operand, __ATOMIC_SEQ_CST);
    case FUTEX_OP_ANDN:
        return __atomic_fetch_and(word, ~operand, __ATOMIC_SEQ_CST);
    default:
        return __atomic_fetch_xor(word, operand, __ATOMIC_SEQ_CST);
    }
}

/* Whether the comparison holds for what the word was. */
static inline bool futex_op_holds(const struct futex_op *op, uint32_t old)
{
    int32_t was = (int32_t)old;
    switch (op->comparison) {
    case FUTEX_OP_CMP_EQ:
        return was == op->compared;
    case FUTEX_OP_CMP_NE:
        return was != op->compared;
    case FUTEX_OP_CMP_LT:
        return was < op->compared;
    case FUTEX_OP_CMP_LE:
        return was <= op->compared;
    case FUTEX_OP_CMP_GT:
        return was > op->compared;
    default:
        return was >= op->compared;
    }
}

#endif
