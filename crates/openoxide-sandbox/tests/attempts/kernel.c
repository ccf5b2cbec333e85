/*! Calls that the kernel has to refuse: mounts, namespaces, rights, devices, settings of the machine. Each is made so that
 *  it does nothing, or nothing that lasts, where it is let through; what is judged is the answer. */
#include "attempts.h"
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/fanotify.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/quota.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>

#define SYS_OPEN_TREE_ATTR 467
#define SYS_LISTNS 470
#define SYS_CLONE3 435
#define SYS_QUOTACTL_FD 443

static unsigned char room[512];

/* A call of numbers and of texts: a row says which, six arguments at most. `W` stands for the room above. */
struct call {
    const char *name;
    enum control control;
    long number;
    long arguments[6];
    int refusal;
};
#define P(x) ((long)(uintptr_t)(x))
#define W P(room)
#define C(n, control, call, ...) {n, control, SYS_##call, {__VA_ARGS__}, 0}

static const struct call calls[] = {
    C("mount-tmpfs", ROOT, mount, P("none"), P("sub"), P("tmpfs"), 0, 0),
    C("mount-bind", ROOT, mount, P("."), P("sub"), 0, MS_BIND, 0),
    C("mount-bind-recursive", ROOT, mount, P("/"), P("sub"), 0, MS_BIND | MS_REC, 0),
    C("mount-remount", NOBODY, mount, P("none"), P("/"), 0, MS_REMOUNT | MS_BIND, 0),
    C("mount-move", NOBODY, mount, P("/dev"), P("sub"), 0, MS_MOVE, 0),
    C("mount-shared", ROOT, mount, P("none"), P("/"), 0, MS_SHARED | MS_REC, 0),
    C("mount-private", ROOT, mount, P("none"), P("/"), 0, MS_PRIVATE | MS_REC, 0),
    C("mount-proc", ROOT, mount, P("proc"), P("sub"), P("proc"), 0, 0),
    C("mount-sysfs", ROOT, mount, P("sysfs"), P("sub"), P("sysfs"), 0, 0),
    C("mount-devpts", ROOT, mount, P("devpts"), P("sub"), P("devpts"), 0, 0),
    C("mount-devtmpfs", NOBODY, mount, P("dev"), P("sub"), P("devtmpfs"), 0, 0),
    C("mount-overlay", NOBODY, mount, P("o"), P("sub"), P("overlay"), 0, P("lowerdir=/,upperdir=.,workdir=.")),
    C("mount-cgroup", NOBODY, mount, P("c"), P("sub"), P("cgroup2"), 0, 0),
    C("mount-on-git", NOBODY, mount, P("none"), P(".git"), P("tmpfs"), 0, 0),
    C("mount-on-proc", NOBODY, mount, P("none"), P("/proc"), P("tmpfs"), 0, 0),
    C("umount-git", NOBODY, umount2, P(".git"), MNT_DETACH),
    C("umount-workspace", NOBODY, umount2, P("."), MNT_DETACH),
    C("umount-dev", NOBODY, umount2, P("/dev"), MNT_DETACH),
    C("umount-proc", NOBODY, umount2, P("/proc"), MNT_DETACH),
    C("umount-root", NOBODY, umount2, P("/"), MNT_DETACH),
    C("umount-expire", NOBODY, umount2, P("/dev/shm"), MNT_EXPIRE),
    C("pivot_root", ROOT, pivot_root, P("."), P("sub")),
    C("pivot_root-same", ROOT, pivot_root, P("."), P(".")),
    C("chroot", ROOT, chroot, P("/")),
    C("chroot-workspace", ROOT, chroot, P(".")),
    C("open_tree", EVERYBODY, open_tree, AT_FDCWD, P("/"), 0),
    C("open_tree-clone", ROOT, open_tree, AT_FDCWD, P("/"), 1),
    C("open_tree-clone-recursive", ROOT, open_tree, AT_FDCWD, P("/"), 1 | AT_RECURSIVE),
    C("open_tree-git", EVERYBODY, open_tree, AT_FDCWD, P(".git"), 0),
    C("move_mount", ROOT, move_mount, AT_FDCWD, P("/dev"), AT_FDCWD, P("sub"), 0),
    C("move_mount-group", NOBODY, move_mount, AT_FDCWD, P("/dev"), AT_FDCWD, P("/"), 0x100),
    C("move_mount-beneath", NOBODY, move_mount, AT_FDCWD, P("/dev"), AT_FDCWD, P("/"), 0x200),
    C("fsopen-tmpfs", ROOT, fsopen, P("tmpfs"), 0),
    C("fsopen-proc", ROOT, fsopen, P("proc"), 0),
    C("fsopen-ext4", ROOT, fsopen, P("ext4"), 0),
    C("fsopen-overlay", NOBODY, fsopen, P("overlay"), 0),
    C("fspick", ROOT, fspick, AT_FDCWD, P("/"), 0),
    C("fspick-workspace", NOBODY, fspick, AT_FDCWD, P("."), 0),
    C("fsconfig", EVERYBODY, fsconfig, -1, 6, 0, 0, 0),
    C("fsconfig-create", EVERYBODY, fsconfig, 0, 6, 0, 0, 0),
    C("fsmount", ROOT, fsmount, -1, 0, 0),
    C("mount_setattr-root", ROOT, mount_setattr, AT_FDCWD, P("/"), AT_RECURSIVE, W, 32),
    C("mount_setattr-workspace", NOBODY, mount_setattr, AT_FDCWD, P("."), 0, W, 32),
    C("mount_setattr-git", NOBODY, mount_setattr, AT_FDCWD, P(".git"), 0, W, 32),
    {"setns-descriptor", EVERYBODY, SYS_setns, {0, 0}, 0},
    {"setns-every", EVERYBODY, SYS_setns, {0, CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID}, 0},
    C("io_uring_setup", NOBODY, io_uring_setup, 4, W),
    C("io_uring_enter", EVERYBODY, io_uring_enter, 0, 0, 0, 0, 0, 0),
    C("io_uring_register", EVERYBODY, io_uring_register, 0, 0, 0, 0),
    C("io_uring_register-blind", EVERYBODY, io_uring_register, -1, 0, 0, 0),
    C("bpf-map", ROOT, bpf, 0, W, 72), C("bpf-program", ROOT, bpf, 5, W, 72), C("bpf-next-id", ROOT, bpf, 11, W, 72),
    C("bpf-object", NOBODY, bpf, 7, W, 16),
    C("perf_event_open", NOBODY, perf_event_open, W, 0, -1, -1, 0),
    C("perf_event_open-all", NOBODY, perf_event_open, W, -1, 0, -1, 0),
    C("userfaultfd", ROOT, userfaultfd, 0), C("userfaultfd-user", EVERYBODY, userfaultfd, 1),
    C("keyctl-session", EVERYBODY, keyctl, 0, -3, 0), C("keyctl-user", EVERYBODY, keyctl, 0, -4, 1),
    C("keyctl-describe", EVERYBODY, keyctl, 6, -4, W, 256), C("keyctl-read", EVERYBODY, keyctl, 11, -4, W, 256),
    C("keyctl-join", EVERYBODY, keyctl, 1, 0), C("keyctl-search", EVERYBODY, keyctl, 10, -4, P("user"), P("a"), 0),
    C("keyctl-persistent", EVERYBODY, keyctl, 22, -1, -2), C("keyctl-capabilities", EVERYBODY, keyctl, 31, W, 8),
    C("add_key-user", EVERYBODY, add_key, P("user"), P("a"), P("x"), 1, -2),
    C("add_key-session", NOBODY, add_key, P("user"), P("a"), P("x"), 1, -3),
    C("add_key-keyring", EVERYBODY, add_key, P("keyring"), P("a"), 0, 0, -2),
    C("add_key-logon", EVERYBODY, add_key, P("logon"), P("a:b"), P("x"), 1, -2),
    C("request_key", EVERYBODY, request_key, P("user"), P("a"), 0, 0),
    C("request_key-callout", EVERYBODY, request_key, P("user"), P("a"), P("x"), -2),
    C("kexec_load", ROOT, kexec_load, 0, 0, 0, 0x100), C("kexec_file_load", ROOT, kexec_file_load, -1, -1, 0, 0, 0x100),
    C("init_module", ROOT, init_module, 0, 0, P("")), C("finit_module", ROOT, finit_module, -1, P(""), 0),
    C("delete_module", ROOT, delete_module, P("no_such_module"), 0),
    C("quotactl", ROOT, quotactl, QCMD(Q_SYNC, 0), P("/no-such"), 0, 0),
    C("swapon", ROOT, swapon, P("/no-such"), 0), C("swapoff", ROOT, swapoff, P("/no-such")),
    C("reboot", ROOT, reboot, 0, 0, 0, 0), C("reboot-cad", ROOT, reboot, 0xfee1deadL, 672274793, 1, 0),
    C("settimeofday", ROOT, settimeofday, 0, 0), /* Of a clock that there is not, so that none is set. */
    C("clock_settime", EVERYBODY, clock_settime, 99, W), C("clock_adjtime", EVERYBODY, clock_adjtime, 99, W),
    C("sethostname", ROOT, sethostname, P("a"), -1), C("setdomainname", ROOT, setdomainname, P("a"), -1),
    C("acct", ROOT, acct, P("/no-such")), C("acct-off", NOBODY, acct, 0), C("vhangup", NOBODY, vhangup, 0),
    C("syslog-size", ROOT, syslog, 10, 0, 0), C("syslog-read", ROOT, syslog, 3, W, 512), C("syslog-clear", NOBODY, syslog, 8, 0, 7),
    C("iopl", ROOT, iopl, 3), C("ioperm", ROOT, ioperm, 0x80, 1, 1), C("modify_ldt", EVERYBODY, modify_ldt, 1, W, 16),
    C("fanotify_init", ROOT, fanotify_init, FAN_CLASS_PRE_CONTENT, 0),
    C("fanotify_init-user", NOBODY, fanotify_init, FAN_REPORT_FID, 0),
    C("name_to_handle_at", EVERYBODY, name_to_handle_at, AT_FDCWD, P("/"), W, W + 256, 0),
    C("open_by_handle_at", EVERYBODY, open_by_handle_at, AT_FDCWD, W, 0),
    C("kcmp", NOBODY, kcmp, 1, 1, 0, 0, 0),
    C("pidfd_getfd", EVERYBODY, pidfd_getfd, 0, 0, 0),
    {"mknod-disk", ROOT, SYS_mknod, {P("disk"), S_IFBLK | 0600, 0xfe00}, 0},
    {"mknod-memory", NOBODY, SYS_mknod, {P("memory"), S_IFCHR | 0600, 0x101}, 0},
    {"mknodat-disk", NOBODY, SYS_mknodat, {AT_FDCWD, P("sub/disk"), S_IFBLK | 0600, 0x800}, 0},
    {"chown-away", ROOT, SYS_chown, {P("file"), 1, 1}, EINVAL},
    {"setuid-other", ROOT, SYS_setuid, {54321}, EINVAL},
    {"setgid-other", ROOT, SYS_setgid, {54321}, EINVAL},
    {"setresuid-other", ROOT, SYS_setresuid, {54321, 54321, 54321}, EINVAL},
    {"setgroups", ROOT, SYS_setgroups, {1, W}, 0},
    {"setpriority-high", ROOT, SYS_setpriority, {PRIO_PROCESS, 0, -19}, 0},
    {"ioprio-realtime", ROOT, SYS_ioprio_set, {1, 0, 1 << 13}, 0},
    {"prctl-securebits", ROOT, SYS_prctl, {PR_SET_SECUREBITS, 0}, 0},
    {"prctl-new-privileges", NOBODY, SYS_prctl, {PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0}, EINVAL},
    {"prctl-ambient", NOBODY, SYS_prctl, {PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0}, 0},
    {"prctl-seccomp-off", NOBODY, SYS_prctl, {PR_SET_SECCOMP, 0, 0}, EINVAL},
    {"prctl-exe", NOBODY, SYS_prctl, {PR_SET_MM, PR_SET_MM_EXE_FILE, 0, 0, 0}, EINVAL},
    {"timer-wake", ROOT, SYS_timerfd_create, {CLOCK_REALTIME_ALARM, 0}, 0},
    {"timer-wake-boot", ROOT, SYS_timerfd_create, {CLOCK_BOOTTIME_ALARM, 0}, 0},
};

/* Younger than the C library's names. What they do needs rights that no command has; a refusal of the call by its number
 * does not rest on that. */
static const struct call newer[] = {
    {"open_tree_attr", NOBODY, SYS_OPEN_TREE_ATTR, {AT_FDCWD, P("/"), 1, W, 32}, 0},
    {"open_tree_attr-plain", NOBODY, SYS_OPEN_TREE_ATTR, {AT_FDCWD, P("/"), 0, W, 32}, 0},
    {"listns", NOBODY, SYS_LISTNS, {W, W, 8, 0}, 0},
    {"quotactl_fd", NOBODY, SYS_QUOTACTL_FD, {-1, QCMD(Q_QUOTAON, 0), 0, 0}, 0},
};

static long by_new_row(const struct attempt *a) {
    const long *v = newer[a->n].arguments;
    return syscall(newer[a->n].number, v[0], v[1], v[2], v[3], v[4], v[5]);
}
static long by_row(const struct attempt *a) {
    const struct call *c = &calls[a->n];
    const long *v = c->arguments;
    return syscall(c->number, v[0], v[1], v[2], v[3], v[4], v[5]);
}

static const struct { const char *name; long flag; } spaces[] = {
    {"user", CLONE_NEWUSER}, {"mount", CLONE_NEWNS}, {"pid", CLONE_NEWPID}, {"net", CLONE_NEWNET}, {"ipc", CLONE_NEWIPC},
    {"uts", CLONE_NEWUTS}, {"cgroup", CLONE_NEWCGROUP}, {"time", 0x80}, {"user-mount", CLONE_NEWUSER | CLONE_NEWNS},
    {"user-net", CLONE_NEWUSER | CLONE_NEWNET}, {"user-pid", CLONE_NEWUSER | CLONE_NEWPID},
    {"all", CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS},
    /* With a bit above the 32 that the kernel looks at. */
    {"user-wide", CLONE_NEWUSER | (1L << 40)},
};
static long by_unshare(const struct attempt *a) { return syscall(SYS_unshare, spaces[a->n].flag); }
static long by_clone(const struct attempt *a) {
    long pid = syscall(SYS_clone, spaces[a->n].flag | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) _exit(0);
    return pid;
}
static long by_clone3(const struct attempt *a) {
    uint64_t arguments[11] = {(uint64_t)spaces[a->n].flag, 0, 0, 0, SIGCHLD};
    long pid = syscall(SYS_CLONE3, arguments, sizeof arguments);
    if (pid == 0) _exit(0);
    return pid;
}
static long by_setns(const struct attempt *a) {
    int space = open(a->text, O_RDONLY);
    return space < 0 ? -1 : syscall(SYS_setns, space, 0);
}
/* A namespace first, and the read-only flag off in it. */
static long remount_in_namespace(const struct attempt *a) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) return -1;
    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
    if (mount("none", "/", NULL, MS_REMOUNT | MS_BIND, NULL) < 0) return -1;
    return open(text("%s/outside/%s/new", base, a->name), O_WRONLY | O_CREAT, 0644);
}
static long bind_in_namespace(const struct attempt *a) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) return -1;
    if (mount(text("%s/outside/%s", base, a->name), "sub", NULL, MS_BIND, NULL) < 0) return -1;
    return open("sub/new", O_WRONLY | O_CREAT, 0644);
}

static long open_to_write(const struct attempt *a) { return open(a->text, a->n); }

static long capabilities(const struct attempt *a) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0}, {0}};
    uint32_t bit = 1u << (a->n % 32);
    data[a->n / 32].effective = data[a->n / 32].permitted = bit;
    return syscall(SYS_capset, &header, data);
}
static long raise_limit(const struct attempt *a) {
    struct rlimit now;
    if (getrlimit(a->n, &now) < 0) return -1;
    if (now.rlim_max == RLIM_INFINITY) return errno = EPERM, -1;
    now.rlim_max++;
    return setrlimit(a->n, &now);
}
static long real_time(const struct attempt *a) {
    struct sched_param parameter = {.sched_priority = 1};
    return sched_setscheduler(0, a->n, &parameter);
}
/* A filter of one's own that allows all does not undo the one that holds. */
static long filter_allows(const struct attempt *a) {
    (void)a;
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, all};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) return -1;
    return unshare(CLONE_NEWUSER);
}
/* Somebody else's answers to one's own calls: a listener that says "go on". */
static long filter_listener(const struct attempt *a) {
    (void)a;
    struct sock_filter all[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {4, all};
    int listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    if (listener < 0) return -1;
    pid_t answerer = fork();
    if (answerer == 0)
        for (;;) {
            struct seccomp_notif asked = {0};
            if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0) continue;
            struct seccomp_notif_resp answer = {.id = asked.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
            ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
        }
    pid_t asker = fork();
    if (asker == 0) _exit(unshare(CLONE_NEWUSER) < 0 ? errno : 0);
    int status;
    waitpid(asker, &status, 0);
    kill(answerer, SIGKILL);
    errno = WEXITSTATUS(status);
    return errno ? -1 : 0;
}
/* What keeps set-user-id programs from giving rights. */
static long new_privileges(const struct attempt *a) {
    (void)a;
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? (errno = EPERM, -1) : 0;
}

void add_kernel(void) {
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct attempt *a = add("answers", ANSWER, calls[i].control, by_row, "%s", calls[i].name);
        a->n = i, a->refusal = calls[i].refusal;
    }
    for (size_t i = 0; i < sizeof newer / sizeof *newer; i++)
        add("newer", ANSWER, newer[i].control, by_new_row, "%s", newer[i].name)->n = i;
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        enum control control = strstr(spaces[i].name, "wide") ? NOBODY : ROOT;
        add("answers", ANSWER, control, by_unshare, "unshare-%s", spaces[i].name)->n = i;
        if (spaces[i].flag != 0x80) add("answers", ANSWER, control, by_clone, "clone-%s", spaces[i].name)->n = i;
        add("answers", ANSWER, control, by_clone3, "clone3-%s", spaces[i].name)->n = i;
    }
    static const char *const kinds[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct attempt *a = add("answers", ANSWER, NOBODY, by_setns, "setns-init-%s", kinds[i]);
        a->text = text("/proc/1/ns/%s", kinds[i]);
        a = add("answers", ANSWER, NOBODY, by_setns, "setns-own-%s", kinds[i]);
        a->text = text("/proc/self/ns/%s", kinds[i]);
    }
    add("writes", CANARY, NOBODY, remount_in_namespace, "remount-in-namespace");
    add("writes", CANARY, NOBODY, bind_in_namespace, "bind-in-namespace");
    for (int number = 0; number <= CAP_LAST_CAP; number++) {
        /* Even the root of a virtual machine may lack this one. */
        enum control control = number == CAP_SYS_RESOURCE ? NOBODY : ROOT;
        add("answers", ANSWER, control, capabilities, "capset-%d", number)->n = number;
    }
    static const struct { const char *name; int number; } limits[] = {
        {"core", RLIMIT_CORE}, {"file-size", RLIMIT_FSIZE}, {"files", RLIMIT_NOFILE}, {"nice", RLIMIT_NICE},
        {"real-time", RLIMIT_RTPRIO}, {"processes", RLIMIT_NPROC}, {"messages", RLIMIT_MSGQUEUE},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        add("answers", ANSWER, NOBODY, raise_limit, "limit-%s", limits[i].name)->n = limits[i].number;
    add("answers", ANSWER, ROOT, real_time, "scheduler-fifo")->n = SCHED_FIFO;
    add("answers", ANSWER, ROOT, real_time, "scheduler-round")->n = SCHED_RR;
    add("answers", ANSWER, ROOT, filter_allows, "filter-that-allows");
    add("answers", ANSWER, ROOT, filter_listener, "filter-with-listener");
    add("answers", ANSWER, EVERYBODY, new_privileges, "no-new-privileges");
    static const char *const settings[] = {
        "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname",
        "/proc/sys/kernel/modprobe", "/proc/sys/kernel/pid_max", "/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/sysrq",
        "/proc/sys/kernel/randomize_va_space", "/proc/sys/kernel/yama/ptrace_scope", "/proc/sys/kernel/dmesg_restrict",
        "/proc/sys/kernel/perf_event_paranoid", "/proc/sys/kernel/shmmax", "/proc/sys/kernel/msgmax",
        "/proc/sys/kernel/sem", "/proc/sys/kernel/shm_next_id", "/proc/sys/fs/file-max",
        "/proc/sys/fs/protected_symlinks", "/proc/sys/fs/protected_hardlinks", "/proc/sys/fs/suid_dumpable",
        "/proc/sys/fs/mqueue/msg_max", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/fs/pipe-max-size",
        "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv4/ping_group_range", "/proc/sys/net/core/somaxconn",
        "/proc/sys/net/ipv4/ip_unprivileged_port_start", "/proc/sys/user/max_user_namespaces",
        "/proc/sys/vm/drop_caches", "/proc/sys/vm/overcommit_memory", "/proc/sys/vm/swappiness",
        "/proc/sys/vm/mmap_min_addr", "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/mtrr",
        "/proc/bus/pci/devices", "/proc/acpi/wakeup", "/proc/scsi/scsi", "/proc/timer_list", "/proc/1/oom_score_adj",
        "/proc/1/mem", "/proc/1/uid_map", "/proc/1/attr/current", "/proc/1/coredump_filter", "/proc/1/clear_refs",
        "/proc/1/timerslack_ns", "/proc/1/comm", "/proc/1/setgroups", "/proc/1/sched",
        "/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/kexec_crash_size",
        "/sys/power/state", "/sys/power/wake_lock", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/release_agent",
        "/sys/fs/cgroup/unified/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs",
        "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/pids/tasks", "/sys/fs/cgroup/devices/devices.allow",
        "/sys/fs/cgroup/freezer/tasks", "/sys/fs/cgroup/cpu/tasks", "/sys/fs/cgroup/unified/cgroup.subtree_control",
        "/sys/kernel/debug/sched/features", "/sys/module/kernel/parameters/panic",
        "/sys/devices/system/cpu/online", "/sys/class/net/lo/mtu", "/sys/bus/pci/rescan",
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct attempt *a = add("answers", ANSWER, NOBODY, open_to_write, "write%s", settings[i]);
        a->text = settings[i], a->n = O_WRONLY, a->refusal = ENOENT;
    }
    static const char *const devices[] = {
        "mem", "kmem", "port", "kmsg", "sda", "sda1", "vda", "vda1", "vdb", "nvme0n1", "nvme0", "xvda", "dm-0", "loop0",
        "loop-control", "mapper/control", "md0", "sr0", "ram0", "nbd0", "zram0", "fuse", "kvm", "net/tun", "vhost-net",
        "vhost-vsock", "vsock", "uinput", "uhid", "input/event0", "input/mice", "snapshot", "hpet", "rtc0", "nvram",
        "watchdog", "watchdog0", "btrfs-control", "autofs", "vfio/vfio", "dri/card0", "dri/renderD128", "snd/seq",
        "console", "tty0", "tty1", "ttyS0", "vcs", "vcsa", "vcsu1", "cpu_dma_latency", "cpu/0/msr", "mcelog",
        "userfaultfd", "udmabuf", "dma_heap/system", "hwrng", "ppp", "rfkill", "cuse", "gpiochip0", "i2c-0", "tpm0",
        "tpmrm0", "bsg/0:0:0:0", "sg0", "vga_arbiter",
    };
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        struct attempt *a = add("answers", ANSWER, NOBODY, open_to_write, "device-write-%s", devices[i]);
        a->text = text("/dev/%s", devices[i]), a->n = O_WRONLY | O_NONBLOCK, a->refusal = ENOENT;
        /* Where Landlock stands alone, its user reads what the account may. */
        a = add("devices", ANSWER, NOBODY, open_to_write, "device-read-%s", devices[i]);
        a->text = text("/dev/%s", devices[i]), a->n = O_RDONLY | O_NONBLOCK, a->refusal = ENOENT;
    }
}
