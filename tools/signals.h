/* signals.h - one flag, raised by SIGINT, SIGTERM and SIGHUP: the only mutable state that the command shares. */
#ifndef WEFT_TOOLS_SIGNALS_H
#define WEFT_TOOLS_SIGNALS_H

#include <stdbool.h>

#include "weft.h"

/* From now on a first signal asks for an orderly end; a second one, half a second later or more, ends the process at
 * once, and what stands unfinished in files is removed. Before this call a signal ends the process, which then has
 * nothing to put in order. */
void weft_signals_catch(void);

/* The same, for a verb over files, whose own thread a disk may hold for ever. A verb that is not at its end five
 * seconds after the first signal is ended with exit code 1, and what stands unfinished in files is removed if the disk
 * lets it. It says so, with `json` as an error object too. */
void weft_signals_catch_files(bool json);

/* While true a signal that is caught ends the process at once, with exit code 1: it may be waiting for what nothing
 * interrupts, and there is nothing to put in order. It says "interrupted" first, with `json` as an error object too. */
void weft_signals_deadly(bool now, bool json);

/* From now on a signal also interrupts this session's blocking call; NULL before the session is closed. */
void weft_signals_watch(weft_session *session);

/* A closed pipe and a file size limit come back as errors of write, not as signals; so does a standard stream that was
 * closed before the process began. Signals that a library took before main are the system's again: libinfinipath's
 * handlers would end the process with exit code 1 and no word. */
void weft_signals_prepare(void);

/* Whether an orderly end was asked for; also when stdout can no longer be written. */
bool weft_signals_stopping(void);

/* Returns the name of the signal, for the error that reports the end. */
const char *weft_signals_reason(void);

/* Lets a session work for `ms`, on its thread or by hand, unless a signal comes. */
void weft_signals_pause(weft_session *session, uint32_t ms);

#endif
