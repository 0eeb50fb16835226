/* installed.c: a program with the installed library. Tests that header and library have the same
 * version, and that calls reach the library. */
#include <mmcq.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mmcq_panic(void) { abort(); }

int main(void) {
    if (mmcq_open(0, NULL) != MMCQ_E_ARGUMENT || mmcq_flush(0) != MMCQ_E_STATE)
        return 1;
    if (strcmp(mmcq_error_name(MMCQ_E_LOCKED), "MMCQ_E_LOCKED"))
        return 1;
    printf("mmcq %d.%d.%d\n", MMCQ_VERSION_MAJOR, MMCQ_VERSION_MINOR, MMCQ_VERSION_PATCH);
    return 0;
}
