/* manual.h - the manual of the site file. */
#ifndef WEFT_TOOLS_MANUAL_H
#define WEFT_TOOLS_MANUAL_H

/* Prints it on standard output, as it stands in conf/weft.ini. */
void weft_manual_print(void);

#endif
