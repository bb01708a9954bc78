/* commit.h: which source the program is made of; scripts/embed-commit writes it at every build. */
#ifndef LS_BASE_COMMIT_H
#define LS_BASE_COMMIT_H

extern const char ls__commit[]; /* "77778443bb00"; "+" behind it: with changes; "": not known */

#endif
