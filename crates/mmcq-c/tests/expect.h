/* expect.h: what the test programs say where a call has another result than it must have. */
#ifndef EXPECT_H
#define EXPECT_H
#include "mmcq.h"
#include <stdio.h>

static int wrong;

/* A result of the library, by its name. */
#define IS(call, code)                                                                                        \
    do {                                                                                                      \
        int32_t got = (call);                                                                                 \
        if (got != (code)) {                                                                                  \
            printf("%s: %s instead of %s\n", #call, mmcq_error_name(got), mmcq_error_name(code));             \
            wrong = 1;                                                                                        \
        }                                                                                                     \
    } while (0)

/* Any number. */
#define EQUALS(call, expected)                                                                                \
    do {                                                                                                      \
        long got = (long)(call);                                                                              \
        if (got != (long)(expected))                                                                          \
            printf("%s: %ld instead of %ld\n", #call, got, (long)(expected)), wrong = 1;                      \
    } while (0)

#endif
