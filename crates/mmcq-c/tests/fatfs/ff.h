/* ff.h: what diskio.c needs of FatFs's header, written from FatFs's documentation, so that the
 * tests can compile diskio.c. */
#ifndef FF_DEFINED
#define FF_DEFINED
#include <stdint.h>
typedef unsigned int UINT;
typedef unsigned char BYTE;
typedef uint16_t WORD;
typedef uint32_t DWORD;
#ifdef FF_LBA32
typedef uint32_t LBA_t;
#else
typedef uint64_t LBA_t; /* FF_LBA64 */
#endif
#endif
