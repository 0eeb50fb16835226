/* expect.h: macros that print a message if a call has another result than expected. */
#ifndef EXPECT_H
#define EXPECT_H
#include "mmcq.h"
#include <stdio.h>

static int wrong;

/* Checks a result of the library; prints results by their names. */
#define IS(call, code)                                                                                        \
    do {                                                                                                      \
        int32_t got = (call);                                                                                 \
        if (got != (code)) {                                                                                  \
            printf("%s: %s instead of %s\n", #call, mmcq_error_name(got), mmcq_error_name(code));             \
            wrong = 1;                                                                                        \
        }                                                                                                     \
    } while (0)

/* Checks any number. */
#define EQUALS(call, expected)                                                                                \
    do {                                                                                                      \
        long got = (long)(call);                                                                              \
        if (got != (long)(expected))                                                                          \
            printf("%s: %ld instead of %ld\n", #call, got, (long)(expected)), wrong = 1;                      \
    } while (0)

#endif
