/* mmcq.h asks for the C library's headers, which a kernel has not. */
#include <linux/limits.h>
#include <linux/types.h>
#ifndef UINT64_MAX
#define UINT64_MAX U64_MAX
#endif
