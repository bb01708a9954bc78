/* launch_state.h: the folder in memory that outlives an attempt but not the job. See launch_state.c. */
#ifndef LS_CLI_LAUNCH_STATE_H
#define LS_CLI_LAUNCH_STATE_H

struct ls_state {
    char folder[64];
    int lock; /* -1: none */
};

/* Makes it and tells the ranks by LOCKSTEP_RESCUE. Without one a restart has only checkpoints: a warning. */
void ls__state_open(struct ls_state *s);
void ls__state_close(struct ls_state *s);
/* Removes what jobs of this user left behind when their launcher was killed, here or on another host. */
void ls__state_remove_left(void);

#endif
