/* Critical sections: which exclude each other, and which may run at the same time. */
#include <pthread.h>

#define SEPARATE __attribute__((noinline))

static pthread_mutex_t accounts = PTHREAD_MUTEX_INITIALIZER, log_lock = PTHREAD_MUTEX_INITIALIZER,
                       inner = PTHREAD_MUTEX_INITIALIZER, lonely = PTHREAD_MUTEX_INITIALIZER,
                       left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
static int balance, lines, detail, alone, both;

SEPARATE static void pay(int amount)
{
    pthread_mutex_lock(&accounts);
    balance += amount;
    pthread_mutex_lock(&inner);
    detail++;
    pthread_mutex_unlock(&inner);
    pthread_mutex_unlock(&accounts);
}

SEPARATE static int read_balance(void)
{
    pthread_mutex_lock(&accounts);
    int now = balance;
    pthread_mutex_unlock(&accounts);
    return now;
}

SEPARATE static void write_log(void)
{
    pthread_mutex_lock(&log_lock);
    lines++;
    pthread_mutex_unlock(&log_lock);
}

SEPARATE static void left_first(void)
{
    pthread_mutex_lock(&left);
    pthread_mutex_lock(&right);
    both++;
    pthread_mutex_unlock(&right);
    pthread_mutex_unlock(&left);
}

SEPARATE static void right_first(void)
{
    pthread_mutex_lock(&right);
    pthread_mutex_lock(&left);
    both--;
    pthread_mutex_unlock(&left);
    pthread_mutex_unlock(&right);
}

static void *customer(void *argument)
{
    pay(1);
    write_log();
    left_first();
    return argument;
}

static void *auditor(void *argument)
{
    read_balance();
    right_first();
    pthread_mutex_lock(&lonely);
    alone++;
    pthread_mutex_unlock(&lonely);
    return argument;
}

int main(void)
{
    pthread_t customers[4], other;
    for (int i = 0; i < 4; i++)
        pthread_create(&customers[i], NULL, customer, NULL);
    /* Not while the others run: the program ends. */
    for (int i = 0; i < 4; i++)
        pthread_join(customers[i], NULL);
    pthread_create(&other, NULL, auditor, NULL);
    pthread_create(&customers[0], NULL, customer, NULL);
    pthread_join(customers[0], NULL);
    pthread_join(other, NULL);
    return read_balance() != 5 || both != 4;
}
