/* nodes.c: namespaces and who is in them (nodes.h). */
#include "nodes/nodes.h"

#include "base/buf.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GRACE_S = 3 };
static const char variable[] = "LOCKSTEP_NODE_FILES", outside_variable[] = "LOCKSTEP_NODE_OUTSIDE";
const char ls__nodes_device[] = "eth0";

void ls__nodes_address(int k, char out[16])
{
    snprintf(out, 16, "10.77.0.%u", (unsigned char)(k + 1));
}

/* --- a node's network --- */

static bool set_up(int fd, const char *name)
{
    struct ifreq r = {0};
    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
    if (ioctl(fd, SIOCGIFFLAGS, &r) != 0) return false;
    r.ifr_flags |= IFF_UP;
    return ioctl(fd, SIOCSIFFLAGS, &r) == 0;
}

static bool set_address(int fd, unsigned long what, const char *text)
{
    struct ifreq r = {0};
    struct sockaddr_in a = {.sin_family = AF_INET};
    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", ls__nodes_device);
    inet_pton(AF_INET, text, &a.sin_addr);
    memcpy(&r.ifr_addr, &a, sizeof a);
    return ioctl(fd, what, &r) == 0;
}

static bool set_hardware_address(int fd, int k)
{
    struct ifreq r = {.ifr_hwaddr.sa_family = ARPHRD_ETHER};
    const unsigned char bytes[6] = {2, 0, 0, 0, 0, (unsigned char)(k + 1)};
    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", ls__nodes_device);
    memcpy(r.ifr_hwaddr.sa_data, bytes, sizeof bytes);
    return ioctl(fd, SIOCSIFHWADDR, &r) == 0;
}

/* In the namespace of node k. */
static enum ls_status set_up_network(int k)
{
    char address[16];
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return ls_fail(LS_UNSUPPORTED, "a socket in a network namespace: %s", strerror(errno));
    ls__nodes_address(k, address);
    bool is_up = set_up(fd, "lo") && set_hardware_address(fd, k) && set_address(fd, SIOCSIFADDR, address) &&
                 set_address(fd, SIOCSIFNETMASK, "255.255.255.0") && set_up(fd, ls__nodes_device);
    int code = errno;
    close(fd);
    return is_up ? LS_OK : ls_fail(LS_UNSUPPORTED, "set up the network of a node: %s", strerror(code));
}

static enum ls_status make_node(struct ls_nodes *nodes, struct ls_cable *w)
{
    int k = nodes->n, tap;
    if (unshare(CLONE_NEWNET) != 0) return ls_fail(LS_UNSUPPORTED, "make a network namespace: %s", strerror(errno));
    nodes->files[k] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (nodes->files[k] < 0) return ls_fail(LS_UNSUPPORTED, "open /proc/self/ns/net: %s", strerror(errno));
    nodes->n++;
    TRY(ls__cable_tap(ls__nodes_device, &tap));
    TRY(ls__cable_add(w, tap));
    return set_up_network(k);
}

/* --- the cable's process --- */

/* Of the processes in the nodes, all but this one get the signal (0: none). Returns how many there are. */
static int signal_inhabitants(const struct ls_nodes *nodes, int signal)
{
    int n_found = 0;
    DIR *proc = opendir("/proc");
    if (!proc) return 0;
    for (const struct dirent *d; (d = readdir(proc));) {
        char path[64];
        struct stat its, ours;
        long pid = strtol(d->d_name, NULL, 10);
        snprintf(path, sizeof path, "/proc/%ld/ns/net", pid);
        if (pid <= 0 || pid == getpid() || stat(path, &its) != 0) continue;
        for (int k = 0; k < nodes->n; k++) {
            if (fstat(nodes->files[k], &ours) != 0 || its.st_ino != ours.st_ino || its.st_dev != ours.st_dev) continue;
            n_found++;
            if (signal) kill((pid_t)pid, signal);
        }
    }
    closedir(proc);
    return n_found;
}

/* Until the process that opened the nodes is gone; then mpirun gets a moment to end its job over this very cable. */
static void carry(const struct ls_nodes *nodes, struct ls_cable *w, pid_t parent)
{
    enum { LOOK_NS = 200000000 };
    int64_t orphaned_ns = 0, looked_ns = 0;
    setsid(); /* the terminal's Ctrl-C is not for us */
    ls__cable_hurry();
    for (;;) {
        ls__cable_turn(w, LOOK_NS);
        if (!orphaned_ns && getppid() != parent) orphaned_ns = ls__now_ns();
        if (!orphaned_ns || ls__now_ns() - looked_ns < LOOK_NS) continue;
        looked_ns = ls__now_ns();
        if (signal_inhabitants(nodes, ls__seconds_since(orphaned_ns) > GRACE_S ? SIGKILL : 0) == 0) _exit(0);
    }
}

static enum ls_status start_cable(struct ls_nodes *nodes, struct ls_cable *w)
{
    pid_t parent = getpid();
    fflush(NULL);
    nodes->cable = fork();
    if (nodes->cable < 0) return ls_fail(LS_ERROR, "start a process for the network: %s", strerror(errno));
    if (nodes->cable > 0) return LS_OK;
    for (int fd = 0; fd < 3; fd++) close(fd); /* nobody waits for our end of a pipe */
    static const int ours[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    for (int i = 0; i < 4; i++) signal(ours[i], SIG_IGN);
    carry(nodes, w, parent);
    _exit(0);
}

/* --- open and close --- */

static enum ls_status tell_shell(struct ls_nodes *nodes)
{
    struct ls_buf text = LS_BUF_INIT;
    struct stat own;
    char outside[32];
    ls__buf_addf(&text, "%ld:", (long)getpid());
    for (int k = 0; k < nodes->n; k++) ls__buf_addf(&text, "%s%d", k ? "," : "", nodes->files[k]);
    enum ls_status status = ls__buf_check(&text);
    if (status == LS_OK) setenv(variable, text.text, 1);
    ls__buf_release(&text);
    if (stat("/proc/self/ns/net", &own) != 0) return ls_fail(LS_UNSUPPORTED, "/proc/self/ns/net: %s", strerror(errno));
    snprintf(outside, sizeof outside, "%ju", (uintmax_t)own.st_ino);
    setenv(outside_variable, outside, 1);
    snprintf(nodes->shell, sizeof nodes->shell, "/proc/%ld/exe", (long)getpid());
    return status;
}

static enum ls_status open_all(struct ls_nodes *nodes, int n, struct ls_cable *w, const struct ls_cable_shape *shape)
{
    enum ls_status status = LS_OK;
    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (home < 0) return ls_fail(LS_UNSUPPORTED, "open /proc/self/ns/net: %s", strerror(errno));
    for (int k = 0; k < n && status == LS_OK; k++) status = make_node(nodes, w);
    if (setns(home, CLONE_NEWNET) != 0 && status == LS_OK)
        status = ls_fail(LS_ERROR, "go back to the network of this machine: %s", strerror(errno));
    close(home);
    if (status == LS_OK) status = ls__cable_shape(w, shape);
    if (status == LS_OK) status = tell_shell(nodes);
    return status == LS_OK ? start_cable(nodes, w) : status;
}

enum ls_status ls__nodes_open(struct ls_nodes *nodes, int n, const struct ls_cable_shape *shape)
{
    struct ls_cable *w = NULL;
    *nodes = (struct ls_nodes){0};
    if (geteuid() != 0) return ls_fail(LS_UNSUPPORTED, "only root can make networks");
    TRY(ls__cable_create(&w));
    enum ls_status status = open_all(nodes, n, w, shape);
    ls__cable_destroy(&w); /* its process has the devices */
    if (status != LS_OK) ls__nodes_close(nodes);
    return status;
}

void ls__nodes_close(struct ls_nodes *nodes)
{
    if (nodes->cable > 0 && waitpid(nodes->cable, NULL, WNOHANG) == 0) {
        kill(nodes->cable, SIGKILL);
        while (waitpid(nodes->cable, NULL, 0) < 0 && errno == EINTR) continue;
    }
    for (int k = 0; k < nodes->n; k++) close(nodes->files[k]);
    if (nodes->n > 0) {
        unsetenv(variable);
        unsetenv(outside_variable);
    }
    *nodes = (struct ls_nodes){0};
}

/* --- inside --- */

static enum ls_status enter(int file, int k)
{
    char name[16];
    snprintf(name, sizeof name, "node%d", k + 1);
    if (setns(file, CLONE_NEWNET) != 0 || unshare(CLONE_NEWNS | CLONE_NEWUTS) != 0)
        return ls_fail(LS_ERROR, "enter %s: %s", name, strerror(errno));
    if (sethostname(name, strlen(name)) != 0) return ls_fail(LS_ERROR, "name %s: %s", name, strerror(errno));
    /* So that /sys/class/net tells of its devices. Where / is no mount point, it tells of this machine's. */
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0) (void)!mount("sysfs", "/sys", "sysfs", 0, NULL);
    setenv("LOCKSTEP_NODE", name, 1);
    return LS_OK;
}

enum ls_status ls__nodes_enter(const struct ls_nodes *nodes, int k)
{
    return enter(nodes->files[k], k);
}

bool ls__nodes_show_device(const struct ls_nodes *nodes)
{
    char path[64];
    int status = 1;
    snprintf(path, sizeof path, "/sys/class/net/%s", ls__nodes_device);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) _exit(ls__nodes_enter(nodes, 0) == LS_OK && access(path, F_OK) == 0 ? 0 : 1);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return status == 0;
}

/* The first argument that is no option, as ssh's: the host. */
static int host_at(int argc, char *const *argv)
{
    int at = 1;
    while (at < argc && argv[at][0] == '-') at++;
    return at;
}

/* -1: no node has this address. */
static int node_of(const char *address)
{
    char its[16];
    for (int k = 0; k < LS_NODES_MAX; k++) {
        ls__nodes_address(k, its);
        if (strcmp(its, address) == 0) return k;
    }
    return -1;
}

bool ls__nodes_is_shell(int argc, char *const *argv)
{
    int at = host_at(argc, argv);
    return getenv(variable) && at < argc && node_of(argv[at]) >= 0;
}

enum ls_status ls__nodes_shell(int argc, char *const *argv)
{
    int at = host_at(argc, argv), k = node_of(argv[at]);
    struct ls_buf command = LS_BUF_INIT;
    char path[64];
    const char *text = getenv(variable), *number = text ? strchr(text, ':') : NULL;
    for (int i = 0; number && i < k; i++) number = strchr(number + 1, ',');
    if (!number) return ls_fail(LS_ERROR, "there is no node %s", argv[at]);
    snprintf(path, sizeof path, "/proc/%ld/fd/%ld", strtol(text, NULL, 10), strtol(number + 1, NULL, 10));
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return ls_fail(LS_ERROR, "open the network of %s: %s", argv[at], strerror(errno));
    for (int i = at + 1; i < argc; i++) ls__buf_addf(&command, "%s%s", i > at + 1 ? " " : "", argv[i]);
    enum ls_status status = ls__buf_check(&command);
    if (status == LS_OK) status = enter(file, k);
    if (status == LS_OK) {
        execl("/bin/sh", "sh", "-c", command.text ? command.text : "", (char *)NULL);
        status = ls_fail(LS_ERROR, "start /bin/sh: %s", strerror(errno));
    }
    close(file);
    ls__buf_release(&command);
    return status;
}
