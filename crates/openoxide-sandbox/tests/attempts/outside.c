/*! The host's side: a process that attempts reach for, with listeners, a terminal and shared memory. It writes what they
 *  need to know to `BASE/host`, says `ready`, waits for the end of its input, and then says what reached it: a token a line. */
#include "attempts.h"
#include <ctype.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <termios.h>

enum { SLOTS = 16, SLOT = 64, LISTENERS = 9, SETTINGS = 9 };

static char slots[SLOTS][SLOT] __attribute__((aligned(4096)));
static volatile sig_atomic_t signals[128];
static void on_signal(int number) { signals[number] = 1; }

static void must(long result, const char *what) {
    if (result < 0) {
        perror(what);
        exit(2);
    }
}

/* A listener by its kind; the name is a path, or abstract after `@`. */
static int unix_listener(int kind, const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, name);
    socklen_t length = offsetof(struct sockaddr_un, sun_path) + strlen(name);
    if (name[0] == '@') address.sun_path[0] = 0;
    int made = socket(AF_UNIX, kind | SOCK_NONBLOCK, 0);
    must(bind(made, (void *)&address, length), name);
    if (kind != SOCK_DGRAM) must(listen(made, 128), name);
    if (name[0] != '@') chmod(name, 0777);
    return made;
}

static int internet_listener(int family, int kind, FILE *host, const char *key) {
    struct sockaddr_storage address = {.ss_family = family};
    socklen_t length = sizeof address;
    int made = socket(family, kind | SOCK_NONBLOCK, 0), one = 5;
    /* The second family may be off on the whole machine. */
    if (made < 0 || bind(made, (void *)&address, length) < 0) return -1;
    if (kind == SOCK_STREAM) {
        setsockopt(made, IPPROTO_TCP, 23 /* TCP_FASTOPEN */, &one, sizeof one);
        must(listen(made, 128), key);
    }
    getsockname(made, (void *)&address, &length);
    fprintf(host, "%s=%d\n", key, ntohs(((struct sockaddr_in *)&address)->sin_port));
    return made;
}

/* Says each token that came; what came without one is said too. */
static void say(const char *words, long count) {
    if (count <= 0) printf("anonymous\n");
    for (long i = 0; i < count; i++) putchar(words[i] && words[i] != '\r' ? words[i] : '\n');
    putchar('\n');
}

static void drain(int listener, int kind) {
    char room[256];
    for (;;) {
        if (kind == SOCK_DGRAM) {
            long count = recv(listener, room, sizeof room, 0);
            if (count < 0) return;
            say(room, count);
            continue;
        }
        int peer = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        if (peer < 0) return;
        say(room, recv(peer, room, sizeof room, 0));
        close(peer);
    }
}

static long own(const char *file) {
    char room[256] = {0};
    int opened = open(text("/proc/self/%s", file), O_RDONLY);
    if (read(opened, room, sizeof room - 1) < 0) room[0] = 0;
    close(opened);
    long sum = 0;
    for (char *c = room; *c; c++) sum = sum * 31 + *c;
    return sum;
}

/* The process's own settings, as numbers to compare. */
static void settings(long now[SETTINGS]) {
    struct rlimit limit;
    cpu_set_t cpus;
    getrlimit(RLIMIT_NOFILE, &limit), sched_getaffinity(0, sizeof cpus, &cpus);
    long values[SETTINGS] = {limit.rlim_cur, getpriority(PRIO_PROCESS, 0), sched_getscheduler(0), CPU_COUNT(&cpus),
                      syscall(SYS_ioprio_get, 1, 0), own("oom_score_adj"), own("timerslack_ns"), own("comm"), own("coredump_filter")};
    memcpy(now, values, sizeof values);
}

int run_outside(void) {
    static const char *const names[SETTINGS] = {"limit", "nice", "scheduler", "affinity", "io", "oom", "slack", "name", "dump"};
    /* Whoever could trace it by the user's rights may. */
    prctl(PR_SET_PTRACER, -1L);
    for (int number = 1; number < SIGRTMAX; number++)
        if (number == SIGCONT || number == SIGUSR1 || number >= SIGRTMIN) signal(number, on_signal);
    setpgid(0, 0);
    for (int i = 0; i < SLOTS; i++) snprintf(slots[i], SLOT, "secret-of-slot-%d", i);
    char *file = text("%s/host", base);
    FILE *host = fopen(text("%s.new", file), "w");
    if (!host) return 2;
    fprintf(host, "pid=%d\nslots=%lu\n", getpid(), (unsigned long)slots);

    char *path = text("%s/outside/unlinked", base);
    int secret = open(path, O_RDWR | O_CREAT, 0600);
    must(secret < 0 ? -1 : write(secret, "secret-of-descriptor", 20), "secret");
    char *mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, secret, 0);
    unlink(path);
    fprintf(host, "secret=%d\nmapped=%lx-%lx\n", secret, (long)mapped, (long)mapped + 4096);

    int listeners[LISTENERS], kinds[LISTENERS] = {SOCK_STREAM, SOCK_DGRAM, SOCK_STREAM, SOCK_DGRAM, SOCK_STREAM,
                                                  SOCK_DGRAM, SOCK_SEQPACKET, SOCK_STREAM, SOCK_DGRAM};
    listeners[0] = internet_listener(AF_INET, SOCK_STREAM, host, "tcp");
    listeners[1] = internet_listener(AF_INET, SOCK_DGRAM, host, "udp");
    listeners[2] = internet_listener(AF_INET6, SOCK_STREAM, host, "tcp6");
    listeners[3] = internet_listener(AF_INET6, SOCK_DGRAM, host, "udp6");
    listeners[4] = unix_listener(SOCK_STREAM, text("%s/outside/stream", base));
    listeners[5] = unix_listener(SOCK_DGRAM, text("%s/outside/datagram", base));
    listeners[6] = unix_listener(SOCK_SEQPACKET, text("%s/outside/packet", base));
    char *abstract = text("@attempts-%d", getpid());
    listeners[7] = unix_listener(SOCK_STREAM, text("%s-stream", abstract));
    listeners[8] = unix_listener(SOCK_DGRAM, text("%s-datagram", abstract));
    fprintf(host, "abstract=%s\n", abstract);

    int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    grantpt(terminal), unlockpt(terminal);
    int slave = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    struct termios mode;
    must(tcgetattr(slave, &mode), "terminal");
    mode.c_lflag &= ~(ECHO | ICANON), tcsetattr(slave, TCSANOW, &mode);
    fprintf(host, "terminal=%s\nslave=%d\n", ptsname(terminal), slave);
    must(write(terminal, "secret-typed", 12), "terminal");

    uint64_t space = 0;
    struct statx root = {0};
    ioctl(open("/proc/self/ns/mnt", O_RDONLY), _IOR(0xb7, 5, uint64_t), &space);
    statx(AT_FDCWD, "/", 0, 0x4000 /* STATX_MNT_ID_UNIQUE */, &root);
    fprintf(host, "space=%llu\nroot=%llu\n", (unsigned long long)space, (unsigned long long)root.stx_mnt_id);

    int key = 0x0a000000 | getpid();
    int shm = shmget(key, 4096, IPC_CREAT | 0600), messages = msgget(key, IPC_CREAT | 0600);
    int semaphores = semget(key, 3, IPC_CREAT | 0600);
    must(shm, "shmget"), must(messages, "msgget"), must(semaphores, "semget");
    char *memory = shmat(shm, NULL, 0);
    strcpy(memory, "secret-of-memory");
    struct { long kind; char words[96]; } message = {1, "secret-message"};
    must(msgsnd(messages, &message, 15, 0), "msgsnd");
    fprintf(host, "key=%d\nshm=%d\nmessages=%d\nsemaphores=%d\n", key, shm, messages, semaphores);
    char *queue_name = text("/attempts-%d", getpid());
    mqd_t queue = mq_open(queue_name, O_RDWR | O_CREAT | O_NONBLOCK, 0600, &(struct mq_attr){.mq_maxmsg = 8, .mq_msgsize = 256});
    must(queue, "mq_open");
    must(mq_send(queue, "secret-of-queue", 16, 9), "mq_send");
    int posix = shm_open(queue_name, O_RDWR | O_CREAT, 0600);
    must(posix < 0 ? -1 : ftruncate(posix, 4096) + write(posix, "secret-of-posix", 15), "shm_open");
    fprintf(host, "queue=%s\nmemory=%s\n", queue_name, queue_name);
    fclose(host);
    must(rename(text("%s.new", file), file), "host");

    long before[SETTINGS], after[SETTINGS];
    settings(before);
    printf("ready\n"), fflush(stdout);
    char room[4096];
    struct pollfd waited[LISTENERS + 1] = {{0, POLLIN, 0}};
    for (int i = 0; i < LISTENERS; i++) waited[i + 1] = (struct pollfd){listeners[i], POLLIN, 0};
    /* A datagram's sender waits where nobody takes it. A stream's words are there when its sender has ended. */
    while (poll(waited, LISTENERS + 1, -1) < 0 || !waited[0].revents || read(0, room, sizeof room) != 0)
        for (int i = 0; i < LISTENERS; i++) {
            if (listeners[i] >= 0 && kinds[i] == SOCK_DGRAM) drain(listeners[i], kinds[i]);
            else waited[i + 1].fd = -1;
        }

    settings(after);
    for (int i = 0; i < SETTINGS; i++)
        if (before[i] != after[i]) printf("changed-%s\n", names[i]);
    for (int number = 0; number < 128; number++)
        if (signals[number]) printf("signal-%d\n", number);
    for (int i = 0; i < SLOTS; i++)
        if (strcmp(slots[i], text("secret-of-slot-%d", i))) printf("slot-%d\n", i);
    for (int i = 0; i < LISTENERS; i++)
        if (listeners[i] >= 0) drain(listeners[i], kinds[i]);
    for (long count; (count = read(terminal, room, sizeof room)) > 0;) say(room, count);
    unsigned short size[4] = {0};
    ioctl(terminal, TIOCGWINSZ, size);
    if (size[0] == 77) printf("terminal-resize\n");
    if (memory[100]) say(memory + 100, strlen(memory + 100));
    if (memory[200]) say(memory + 200, strlen(memory + 200));
    struct shmid_ds state;
    if (shmctl(shm, IPC_STAT, &state) < 0 || (state.shm_perm.mode & 0777) != 0600) printf("shm-mode\n");
    for (long count; (count = msgrcv(messages, &message, 96, 2, IPC_NOWAIT)) > 0;) say(message.words, count);
    if (semctl(semaphores, 0, GETVAL) == 7) printf("semaphore-key\n");
    if (semctl(semaphores, 1, GETVAL) == 7) printf("semaphore-id\n");
    if (semctl(semaphores, 2, GETVAL) == 7) printf("semaphore-raise\n");
    for (long count; (count = mq_receive(queue, room, sizeof room, NULL)) > 0;)
        if (strncmp(room, "secret", 6)) say(room, count);
    if (mq_unlink(queue_name) < 0) printf("queue-remove\n");
    char words[100] = {0};
    if (pread(posix, words, sizeof words - 1, 100) > 0 && words[0]) say(words, strlen(words));
    if (shm_unlink(queue_name) < 0) printf("memory-remove\n");
    shmctl(shm, IPC_RMID, NULL), msgctl(messages, IPC_RMID, NULL), semctl(semaphores, 0, IPC_RMID);
    return 0;
}
