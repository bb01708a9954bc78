/* launch_alone.c: a network of its own for a job on one machine.
 *
 * mpirun and its daemons listen on every address of the machine, and an idle connection from anywhere can block them.
 * No setting of theirs confines them to loopback. So the job gets a network namespace with nothing in it but loopback:
 * nobody outside reaches it. Unprivileged users need a user namespace for that, in which they stay who they are. Where
 * the system allows neither, the job runs in the common network, and the launcher warns.
 */
#include "cli/launch_impl.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool is_done = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return is_done;
}

static bool map_oneself(unsigned uid, unsigned gid)
{
    char text[64];
    snprintf(text, sizeof text, "%u %u 1\n", uid, uid);
    if (!write_file("/proc/self/uid_map", text) || !write_file("/proc/self/setgroups", "deny")) return false;
    snprintf(text, sizeof text, "%u %u 1\n", gid, gid);
    return write_file("/proc/self/gid_map", text);
}

static bool raise_loopback(void)
{
    struct ifreq lo = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    bool is_up = ioctl(fd, SIOCGIFFLAGS, &lo) == 0;
    lo.ifr_flags |= IFF_UP;
    is_up = is_up && ioctl(fd, SIOCSIFFLAGS, &lo) == 0;
    close(fd);
    return is_up;
}

bool ls__launch_enter_own_network(void)
{
    unsigned uid = geteuid(), gid = getegid();
    if (unshare(CLONE_NEWNET) == 0) return raise_loopback();
    return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && map_oneself(uid, gid) && raise_loopback();
}

/* There is no way back from half of it, so a child tries. */
bool ls__launch_has_own_network(void)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) _exit(ls__launch_enter_own_network() ? 0 : 1);
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
