/*! Reaches for a process outside, of the same user: its memory, descriptors, signals, settings, terminal, and what it
 *  shares by number and name. `outside.c` is that process. */
#include "attempts.h"
#include <dirent.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

enum { SLOT = 64 };

static pid_t host(void) { return outside_number("pid"); }
static char *of_host(const char *leaf) { return text("/proc/%d/%s", host(), leaf); }
static int signal_of(const struct attempt *a) { return a->n; }

/* Each sends the attempt's own signal. */
static long by_kill(const struct attempt *a) { return kill(host(), signal_of(a)); }
static long by_tkill(const struct attempt *a) { return syscall(SYS_tkill, host(), signal_of(a)); }
static long by_tgkill(const struct attempt *a) { return syscall(SYS_tgkill, host(), host(), signal_of(a)); }
static long by_queue(const struct attempt *a) { return sigqueue(host(), signal_of(a), (union sigval){0}); }
static long by_thread_queue(const struct attempt *a) {
    siginfo_t info = {.si_code = -1, .si_signo = signal_of(a)};
    return syscall(SYS_rt_tgsigqueueinfo, host(), host(), signal_of(a), &info);
}
static long by_group(const struct attempt *a) { return kill(-host(), signal_of(a)); }
static long by_every(const struct attempt *a) { return kill(-1, signal_of(a)); }
static long by_pidfd(const struct attempt *a) {
    int process = syscall(SYS_pidfd_open, host(), 0);
    return process < 0 ? -1 : syscall(SYS_pidfd_send_signal, process, signal_of(a), NULL, 0);
}
static long by_proc_descriptor(const struct attempt *a) {
    int process = open(of_host(""), O_RDONLY | O_DIRECTORY);
    return process < 0 ? -1 : syscall(SYS_pidfd_send_signal, process, signal_of(a), NULL, 0);
}
/* The kernel sends the signal for a descriptor that names its owner. */
static long by_owner(const struct attempt *a) {
    int ends[2];
    if (pipe(ends) < 0 || fcntl(ends[0], F_SETOWN, host()) < 0 || fcntl(ends[0], F_SETSIG, signal_of(a)) < 0) return -1;
    if (fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK) < 0) return -1;
    return write(ends[1], "x", 1);
}
static long by_group_owner(const struct attempt *a) {
    int ends[2];
    if (pipe(ends) < 0 || fcntl(ends[0], F_SETOWN, -host()) < 0 || fcntl(ends[0], F_SETSIG, signal_of(a)) < 0) return -1;
    if (fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK) < 0) return -1;
    return write(ends[1], "x", 1);
}
static long by_timer(const struct attempt *a) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL | 4, .sigev_signo = signal_of(a)};
    event._sigev_un._tid = host();
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0) return -1;
    return timer_settime(timer, 0, &(struct itimerspec){{0, 0}, {0, 1000}}, NULL);
}
/* A child that dies when its parent does tells the parent's death to nobody outside. */
static long by_ptrace_signal(const struct attempt *a) {
    if (ptrace(PTRACE_ATTACH, host(), 0, 0) < 0) return -1;
    waitpid(host(), NULL, __WALL);
    return ptrace(PTRACE_DETACH, host(), 0, (void *)(intptr_t)signal_of(a));
}

static uintptr_t slot(const struct attempt *a) { return outside_number("slots") + a->n * SLOT; }
static long read_vm(const struct attempt *a) {
    char room[SLOT] = {0};
    struct iovec own = {room, SLOT - 1}, other = {(void *)slot(a), SLOT - 1};
    return tell(a, room, process_vm_readv(host(), &own, 1, &other, 1, 0));
}
static long write_vm(const struct attempt *a) {
    struct iovec own = {"changed", 7}, other = {(void *)slot(a), 7};
    return process_vm_writev(host(), &own, 1, &other, 1, 0);
}
static long read_mem(const struct attempt *a) {
    char room[SLOT] = {0};
    int file = open(of_host("mem"), O_RDONLY);
    return file < 0 ? -1 : tell(a, room, pread(file, room, SLOT - 1, slot(a)));
}
static long write_mem(const struct attempt *a) {
    int file = open(of_host("mem"), O_RDWR);
    return file < 0 ? -1 : pwrite(file, "changed", 7, slot(a));
}
static long write_task_mem(const struct attempt *a) {
    int file = open(of_host(text("task/%d/mem", host())), O_RDWR);
    return file < 0 ? -1 : pwrite(file, "changed", 7, slot(a));
}
static long peek(const struct attempt *a) {
    if (ptrace(PTRACE_SEIZE, host(), 0, 0) < 0) return -1;
    ptrace(PTRACE_INTERRUPT, host(), 0, 0);
    waitpid(host(), NULL, __WALL);
    long words[2] = {ptrace(PTRACE_PEEKDATA, host(), slot(a), 0), 0};
    ptrace(PTRACE_DETACH, host(), 0, 0);
    return tell(a, (char *)words, 8);
}
static long poke(const struct attempt *a) {
    if (ptrace(PTRACE_ATTACH, host(), 0, 0) < 0) return -1;
    waitpid(host(), NULL, __WALL);
    ptrace(PTRACE_POKEDATA, host(), slot(a), 0x6465676e616863L);
    return ptrace(PTRACE_DETACH, host(), 0, 0);
}

static long show(const struct attempt *a, int file) {
    static char room[4096];
    return file < 0 ? -1 : tell(a, room, pread(file, room, sizeof room - 1, 0));
}
static long descriptor(const struct attempt *a) {
    int process = syscall(SYS_pidfd_open, host(), 0);
    return process < 0 ? -1 : show(a, syscall(SYS_pidfd_getfd, process, outside_number("secret"), 0));
}
static long descriptor_link(const struct attempt *a) {
    return show(a, open(of_host(text("fd/%ld", outside_number("secret"))), O_RDONLY));
}
static long thread_descriptor(const struct attempt *a) {
    return show(a, open(of_host(text("task/%d/fd/%ld", host(), outside_number("secret"))), O_RDONLY));
}
static long mapped_file(const struct attempt *a) {
    return show(a, open(of_host(text("map_files/%s", outside_text("mapped"))), O_RDONLY));
}
static long environment(const struct attempt *a) { return show(a, open(of_host("environ"), O_RDONLY)); }
static long command_line(const struct attempt *a) { return show(a, open(of_host("cmdline"), O_RDONLY)); }
static long any_environment(const struct attempt *a) {
    long found = -1;
    DIR *all = opendir("/proc");
    for (struct dirent *entry; all && (entry = readdir(all));) {
        int file = open(text("/proc/%s/environ", entry->d_name), O_RDONLY);
        static char room[4096];
        long count = file < 0 ? 0 : read(file, room, sizeof room - 1);
        char *at = count > 0 ? memmem(room, count, "secret-environment", 18) : NULL;
        if (at) found = tell(a, at, 18);
        if (file >= 0) close(file);
    }
    return found < 0 ? (errno = EACCES, -1) : found;
}

/* Settings of the process; `outside.c` looks whether its own changed. */
static long set_limit(const struct attempt *a) {
    (void)a;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 77;
    return prlimit(host(), RLIMIT_NOFILE, &limit, NULL);
}
static long set_nice(const struct attempt *a) { return (void)a, setpriority(PRIO_PROCESS, host(), 7); }
static long set_scheduler(const struct attempt *a) {
    (void)a;
    return sched_setscheduler(host(), SCHED_BATCH, &(struct sched_param){0});
}
static long set_affinity(const struct attempt *a) {
    cpu_set_t first;
    (void)a;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    return sched_setaffinity(host(), sizeof first, &first);
}
static long set_file(const struct attempt *a) {
    int file = open(of_host(a->text), O_WRONLY);
    return file < 0 ? -1 : write(file, a->more, strlen(a->more));
}
static long set_io(const struct attempt *a) { return (void)a, syscall(SYS_ioprio_set, 1, host(), 3 << 13); }
static long reclaim(const struct attempt *a) {
    struct iovec range = {(void *)(uintptr_t)(outside_number("slots") & ~4095L), 4096};
    int process = syscall(SYS_pidfd_open, host(), 0);
    (void)a;
    return process < 0 ? -1 : syscall(SYS_process_madvise, process, &range, 1, MADV_PAGEOUT, 0);
}
static long move_pages(const struct attempt *a) {
    void *page = (void *)(uintptr_t)(outside_number("slots") & ~4095L);
    int status;
    (void)a;
    return syscall(SYS_move_pages, host(), 1, &page, NULL, &status, 0);
}
static long namespaces(const struct attempt *a) {
    int space = open(of_host(a->text), O_RDONLY);
    return space < 0 ? -1 : syscall(SYS_setns, space, 0);
}
static long namespace_pidfd(const struct attempt *a) {
    int process = syscall(SYS_pidfd_open, host(), 0);
    return process < 0 ? -1 : syscall(SYS_setns, process, a->n);
}

/* The mounts of the namespace outside, by its number and theirs. */
struct mount_request {
    uint32_t size, spare;
    uint64_t mount, parameter, space;
};
static long list_mounts(const struct attempt *a) {
    struct mount_request request = {sizeof request, 0, UINT64_MAX, 0, strtoull(outside_text("space"), NULL, 10)};
    uint64_t found[16];
    long count = syscall(458, &request, found, 16, 0);
    return count < 0 ? -1 : tell(a, "secret-mounts", count ? 13 : 0);
}
static long show_mount(const struct attempt *a) {
    struct mount_request request = {sizeof request, 0, strtoull(outside_text("root"), NULL, 10), 1,
                                    a->n ? strtoull(outside_text("space"), NULL, 10) : 0};
    static char found[4096];
    return syscall(457, &request, found, sizeof found, 0) < 0 ? -1 : tell(a, "secret-mount", 12);
}

/* What is shared by number or name. */
static long read_shm(const struct attempt *a) {
    int id = a->n ? (int)outside_number("shm") : shmget(outside_number("key"), 0, 0);
    char *memory = id < 0 ? (void *)-1 : shmat(id, NULL, SHM_RDONLY);
    return memory == (void *)-1 ? -1 : tell(a, memory, strnlen(memory, 32));
}
static long write_shm(const struct attempt *a) {
    int id = a->n ? (int)outside_number("shm") : shmget(outside_number("key"), 0, 0);
    char *memory = id < 0 ? (void *)-1 : shmat(id, NULL, 0);
    return memory == (void *)-1 ? -1 : (strcpy(memory + (a->n ? 100 : 200), a->token), 0);
}
static long lock_shm(const struct attempt *a) {
    struct shmid_ds now;
    (void)a;
    if (shmctl(outside_number("shm"), IPC_STAT, &now) < 0) return -1;
    now.shm_perm.mode = 0644;
    return shmctl(outside_number("shm"), IPC_SET, &now);
}
static long send_message(const struct attempt *a) {
    int queue = a->n ? (int)outside_number("messages") : msgget(outside_number("key"), 0);
    struct { long kind; char words[96]; } message = {2, ""};
    strcpy(message.words, a->token);
    return msgsnd(queue, &message, strlen(a->token) + 1, IPC_NOWAIT);
}
static long receive_message(const struct attempt *a) {
    int queue = a->n ? (int)outside_number("messages") : msgget(outside_number("key"), 0);
    struct { long kind; char words[96]; } message = {0, ""};
    long count = msgrcv(queue, &message, 96, 1, IPC_NOWAIT | MSG_NOERROR);
    return tell(a, message.words, count);
}
static long set_semaphore(const struct attempt *a) {
    int set = a->n ? (int)outside_number("semaphores") : semget(outside_number("key"), 0, 0);
    return semctl(set, a->n, SETVAL, 7);
}
static long raise_semaphore(const struct attempt *a) {
    struct sembuf operation = {.sem_num = 2, .sem_op = 7, .sem_flg = IPC_NOWAIT};
    (void)a;
    return semop(outside_number("semaphores"), &operation, 1);
}
static long send_posix(const struct attempt *a) {
    mqd_t queue = mq_open(outside_text("queue"), O_WRONLY | O_NONBLOCK);
    return queue == (mqd_t)-1 ? -1 : mq_send(queue, a->token, strlen(a->token) + 1, 0);
}
static long receive_posix(const struct attempt *a) {
    mqd_t queue = mq_open(outside_text("queue"), O_RDONLY | O_NONBLOCK);
    char room[256] = {0};
    return queue == (mqd_t)-1 ? -1 : tell(a, room, mq_receive(queue, room, sizeof room, NULL));
}
static long remove_posix(const struct attempt *a) { return (void)a, mq_unlink(outside_text("queue")); }
static long posix_memory(const struct attempt *a) {
    int file = shm_open(outside_text("memory"), a->n ? O_RDWR : O_RDONLY, 0);
    if (file < 0) return -1;
    return a->n ? pwrite(file, a->token, strlen(a->token) + 1, 100) : show(a, file);
}
static long posix_remove(const struct attempt *a) { return (void)a, shm_unlink(outside_text("memory")); }

/* The terminal of the process outside. */
static long type_on(const struct attempt *a, int terminal) {
    if (terminal < 0) return -1;
    long done = -1;
    for (const char *c = a->token; *c; c++) done = ioctl(terminal, TIOCSTI, c);
    return done;
}
static long write_terminal(const struct attempt *a) {
    int terminal = open(outside_text("terminal"), a->n | O_NOCTTY | O_NONBLOCK);
    return terminal < 0 ? -1 : write(terminal, text("%s\n", a->token), strlen(a->token) + 1);
}
static long write_terminal_root(const struct attempt *a) {
    int terminal = open(text("/proc/%d/root%s", host(), outside_text("terminal")), O_WRONLY | O_NOCTTY | O_NONBLOCK);
    return terminal < 0 ? -1 : write(terminal, text("%s\n", a->token), strlen(a->token) + 1);
}
static long write_terminal_descriptor(const struct attempt *a) {
    int terminal = open(of_host(text("fd/%ld", outside_number("slave"))), O_WRONLY | O_NOCTTY | O_NONBLOCK);
    return terminal < 0 ? -1 : write(terminal, text("%s\n", a->token), strlen(a->token) + 1);
}
static long read_terminal(const struct attempt *a) {
    int terminal = open(outside_text("terminal"), O_RDONLY | O_NOCTTY | O_NONBLOCK);
    char room[64] = {0};
    return terminal < 0 ? -1 : tell(a, room, read(terminal, room, sizeof room - 1));
}
static long type_terminal(const struct attempt *a) {
    return type_on(a, open(outside_text("terminal"), O_RDWR | O_NOCTTY | O_NONBLOCK));
}
static long take_terminal(const struct attempt *a) {
    setsid();
    int terminal = open(outside_text("terminal"), O_RDWR | O_NONBLOCK);
    if (terminal < 0 || ioctl(terminal, TIOCSCTTY, 0) < 0) return -1;
    return type_on(a, terminal);
}
static long resize_terminal(const struct attempt *a) {
    int terminal = open(outside_text("terminal"), O_RDONLY | O_NOCTTY | O_NONBLOCK);
    (void)a;
    return terminal < 0 ? -1 : ioctl(terminal, TIOCSWINSZ, &(unsigned short[4]){77, 77, 0, 0});
}
static long type_own(const struct attempt *a) {
    int own = posix_openpt(O_RDWR | O_NOCTTY);
    (void)a;
    if (own < 0 || grantpt(own) < 0 || unlockpt(own) < 0) return -1;
    int terminal = open(ptsname(own), O_RDWR | O_NOCTTY);
    return terminal < 0 ? -1 : ioctl(terminal, a->n, "x");
}

void add_processes(void) {
    static const struct { const char *name; long (*run)(const struct attempt *); enum control control; } signals[] = {
        {"kill", by_kill, EVERYBODY}, {"tkill", by_tkill, EVERYBODY}, {"tgkill", by_tgkill, EVERYBODY},
        {"sigqueue", by_queue, EVERYBODY}, {"tgsigqueue", by_thread_queue, EVERYBODY}, {"kill-group", by_group, EVERYBODY},
        {"pidfd-signal", by_pidfd, EVERYBODY}, {"proc-signal", by_proc_descriptor, EVERYBODY},
        {"owner-signal", by_owner, EVERYBODY}, {"group-owner-signal", by_group_owner, EVERYBODY},
        {"timer-signal", by_timer, NOBODY}, {"ptrace-signal", by_ptrace_signal, EVERYBODY},
    };
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct attempt *a = add("processes", REACHED, signals[i].control, signals[i].run, "%s", signals[i].name);
        a->n = SIGRTMIN + 1 + (int)i, a->refusal = ESRCH;
        snprintf(a->token, sizeof a->token, "signal-%ld", a->n);
    }
    struct attempt *every = add("processes", REACHED, NOBODY, by_every, "kill-every");
    every->n = SIGCONT, every->refusal = ESRCH;
    snprintf(every->token, sizeof every->token, "signal-%d", SIGCONT);

    static const struct { const char *name; long (*run)(const struct attempt *); enum effect effect; } memory[] = {
        {"read-vm", read_vm, SECRET}, {"write-vm", write_vm, REACHED}, {"read-mem", read_mem, SECRET},
        {"write-mem", write_mem, REACHED}, {"write-task-mem", write_task_mem, REACHED}, {"peek", peek, SECRET},
        {"poke", poke, REACHED}, {"descriptor-pidfd", descriptor, SECRET}, {"descriptor-link", descriptor_link, SECRET},
        {"descriptor-thread", thread_descriptor, SECRET}, {"environ", environment, SECRET},
        {"any-environ", any_environment, SECRET},
    };
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
        struct attempt *a = add("processes", memory[i].effect, EVERYBODY, memory[i].run, "%s", memory[i].name);
        a->n = i;
        if (a->effect == REACHED) snprintf(a->token, sizeof a->token, "slot-%zu", i);
    }
    add("processes", SECRET, ROOT, mapped_file, "mapped-file");
    add("names", SECRET, EVERYBODY, command_line, "command-line");
    /* Kernels before 6.11 know neither numbers. */
    add("names", SECRET, EVERYBODY, list_mounts, "listmount")->refusal = ENOENT;
    add("names", SECRET, EVERYBODY, show_mount, "statmount")->refusal = ENOENT;
    struct attempt *spaced = add("names", SECRET, EVERYBODY, show_mount, "statmount-space");
    spaced->n = 1, spaced->refusal = ENOENT;

    static const struct { const char *name; long (*run)(const struct attempt *); const char *token, *text, *more; } set[] = {
        {"set-limit", set_limit, "changed-limit", 0, 0}, {"set-nice", set_nice, "changed-nice", 0, 0},
        {"set-scheduler", set_scheduler, "changed-scheduler", 0, 0}, {"set-affinity", set_affinity, "changed-affinity", 0, 0},
        {"set-io", set_io, "changed-io", 0, 0}, {"set-oom", set_file, "changed-oom", "oom_score_adj", "777"},
        {"set-slack", set_file, "changed-slack", "timerslack_ns", "7777"},
        {"set-name", set_file, "changed-name", "comm", "changed"},
        {"set-dump", set_file, "changed-dump", "coredump_filter", "0x7f"},
    };
    for (size_t i = 0; i < sizeof set / sizeof *set; i++) {
        /* Names of processes are for their own threads only; affinity says nothing on one processor. */
        int nobody = set[i].run == set_affinity || !strcmp(set[i].name, "set-name") || !strcmp(set[i].name, "set-slack");
        struct attempt *a = add("processes", REACHED, nobody ? NOBODY : EVERYBODY, set[i].run, "%s", set[i].name);
        a->text = set[i].text, a->more = set[i].more;
        snprintf(a->token, sizeof a->token, "%s", set[i].token);
    }
    add("processes", ANSWER, NOBODY, reclaim, "page-out")->refusal = ESRCH;
    add("processes", ANSWER, NOBODY, move_pages, "move-pages")->refusal = ESRCH;
    static const char *const kinds[] = {"ns/user", "ns/mnt", "ns/pid", "ns/net", "ns/ipc", "ns/uts", "ns/cgroup"};
    static const long flags[] = {0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000};
    for (int i = 0; i < 7; i++) {
        struct attempt *a = add("processes", ANSWER, NOBODY, namespaces, "setns-host-%s", kinds[i] + 3);
        a->text = kinds[i], a->refusal = ENOENT;
        a = add("processes", ANSWER, NOBODY, namespace_pidfd, "setns-pidfd-%s", kinds[i] + 3);
        a->n = flags[i], a->refusal = ESRCH;
    }

    for (int by_id = 0; by_id < 2; by_id++) {
        const char *how = by_id ? "id" : "key";
        add("shared", SECRET, EVERYBODY, read_shm, "shm-read-%s", how)->n = by_id;
        add("shared", REACHED, EVERYBODY, write_shm, "shm-write-%s", how)->n = by_id;
        add("shared", REACHED, EVERYBODY, send_message, "message-send-%s", how)->n = by_id;
        add("shared", REACHED, EVERYBODY, set_semaphore, "semaphore-%s", how)->n = by_id;
    }
    add("shared", SECRET, EVERYBODY, receive_message, "message-receive-id")->n = 1;
    add("shared", REACHED, EVERYBODY, raise_semaphore, "semaphore-raise");
    add("shared", REACHED, EVERYBODY, lock_shm, "shm-mode");
    add("shared", REACHED, EVERYBODY, send_posix, "queue-send");
    add("shared", SECRET, EVERYBODY, receive_posix, "queue-receive");
    add("shared", REACHED, NOBODY, remove_posix, "queue-remove");
    add("shared", REACHED, EVERYBODY, posix_memory, "memory-write")->n = 1;
    add("names", SECRET, EVERYBODY, posix_memory, "memory-read");
    add("shared", REACHED, NOBODY, posix_remove, "memory-remove");

    add("terminals", REACHED, EVERYBODY, write_terminal, "terminal-write")->n = O_WRONLY;
    add("terminals", REACHED, EVERYBODY, write_terminal, "terminal-write-both")->n = O_RDWR;
    add("terminals", REACHED, EVERYBODY, write_terminal_root, "terminal-write-root");
    add("terminals", REACHED, EVERYBODY, write_terminal_descriptor, "terminal-write-descriptor");
    add("terminals", SECRET, EVERYBODY, read_terminal, "terminal-read");
    add("terminals", REACHED, NOBODY, type_terminal, "terminal-type");
    add("terminals", REACHED, NOBODY, take_terminal, "terminal-take");
    add("terminals", REACHED, EVERYBODY, resize_terminal, "terminal-resize");
    add("answers", ANSWER, NOBODY, type_own, "own-terminal-type")->n = TIOCSTI;
    add("answers", ANSWER, NOBODY, type_own, "own-terminal-console")->n = TIOCLINUX;
    /* The number with bits above the 32 that the kernel looks at. */
    add("answers", ANSWER, NOBODY, type_own, "own-terminal-type-wide")->n = TIOCSTI | 1L << 33;
}
