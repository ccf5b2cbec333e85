/*! Sockets: reaching listeners outside by each family and call, and making kinds that no command needs. */
#include "attempts.h"
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

enum target { TCP, UDP, TCP6, UDP6, STREAM, DATAGRAM, PACKET, ABSTRACT_STREAM, ABSTRACT_DATAGRAM, TARGETS };
static const struct { const char *name; int family, kind; const char *where; } targets[TARGETS] = {
    {"tcp", AF_INET, SOCK_STREAM, "tcp"}, {"udp", AF_INET, SOCK_DGRAM, "udp"}, {"tcp6", AF_INET6, SOCK_STREAM, "tcp6"},
    {"udp6", AF_INET6, SOCK_DGRAM, "udp6"}, {"stream", AF_UNIX, SOCK_STREAM, "stream"},
    {"datagram", AF_UNIX, SOCK_DGRAM, "datagram"}, {"packet", AF_UNIX, SOCK_SEQPACKET, "packet"},
    {"abstract-stream", AF_UNIX, SOCK_STREAM, "-stream"}, {"abstract-datagram", AF_UNIX, SOCK_DGRAM, "-datagram"},
};

static socklen_t address_of(enum target target, const char *prefix, struct sockaddr_storage *to) {
    memset(to, 0, sizeof *to);
    to->ss_family = targets[target].family;
    if (target <= UDP6) {
        if (!*outside_text(targets[target].where)) return errno = EACCES, 0;
        ((struct sockaddr_in *)to)->sin_port = htons(outside_number(targets[target].where));
        if (to->ss_family == AF_INET) ((struct sockaddr_in *)to)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        else ((struct sockaddr_in6 *)to)->sin6_addr = in6addr_loopback;
        return to->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    }
    struct sockaddr_un *name = (void *)to;
    if (target < ABSTRACT_STREAM) snprintf(name->sun_path, sizeof name->sun_path, "%soutside/%s", prefix, targets[target].where);
    else snprintf(name->sun_path, sizeof name->sun_path, "%s%s", outside_text("abstract"), targets[target].where);
    socklen_t length = offsetof(struct sockaddr_un, sun_path) + strlen(name->sun_path);
    if (name->sun_path[0] == '@') name->sun_path[0] = 0;
    return length;
}

static char *here(void) { return text("%s/", base); }
static int made(enum target target) { return socket(targets[target].family, targets[target].kind, 0); }
static long said(const struct attempt *a) { return strlen(a->token) + 1; }

static long connected(const struct attempt *a, int own, const char *prefix) {
    struct sockaddr_storage to;
    socklen_t length = address_of(a->n, prefix, &to);
    if (own < 0 || !length || connect(own, (void *)&to, length) < 0) return -1;
    return write(own, a->token, said(a));
}
static long by_connect(const struct attempt *a) { return connected(a, made(a->n), here()); }
static long by_relative(const struct attempt *a) {
    return chdir("..") < 0 ? -1 : connected(a, made(a->n), "");
}
static long by_self_root(const struct attempt *a) {
    return symlink(text("/proc/self/root%s", base), "/proc/self/cwd/r") < 0 ? connected(a, made(a->n), "../")
                                                                            : connected(a, made(a->n), "r/");
}
static long by_host_cwd(const struct attempt *a) {
    return connected(a, made(a->n), text("/proc/%ld/cwd/", outside_number("pid")));
}
static long by_pair(const struct attempt *a) {
    int ends[2];
    return socketpair(AF_UNIX, targets[a->n].kind, 0, ends) < 0 ? -1 : connected(a, ends[0], here());
}
static long sent(const struct attempt *a, int own, int flags) {
    struct sockaddr_storage to;
    socklen_t length = address_of(a->n, here(), &to);
    if (own < 0 || !length) return -1;
    struct iovec words = {(void *)a->token, said(a)};
    struct mmsghdr message = {.msg_hdr = {.msg_name = &to, .msg_namelen = length, .msg_iov = &words, .msg_iovlen = 1}};
    if (a->m == 1) return sendmsg(own, &message.msg_hdr, flags);
    if (a->m == 2) return sendmmsg(own, &message, 1, flags);
    return sendto(own, a->token, said(a), flags, (void *)&to, length);
}
static long by_send(const struct attempt *a) { return sent(a, made(a->n), 0); }
static long by_fast_open(const struct attempt *a) { return sent(a, made(a->n), MSG_FASTOPEN); }
static long by_pair_send(const struct attempt *a) {
    int ends[2];
    return socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) < 0 ? -1 : sent(a, ends[0], 0);
}
static long by_raw_pair_send(const struct attempt *a) {
    int ends[2];
    return socketpair(AF_UNIX, SOCK_RAW, 0, ends) < 0 ? -1 : sent(a, ends[0], 0);
}
static long by_stream_pair_send(const struct attempt *a) {
    int ends[2];
    return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0 ? -1 : sent(a, ends[0], 0);
}
/* A connected socket forgets its peer, and connects anew. */
static long by_disconnect(const struct attempt *a) {
    int ends[2];
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    if (socketpair(AF_UNIX, a->m ? SOCK_SEQPACKET : SOCK_STREAM, 0, ends) < 0) return -1;
    if (connect(ends[0], &none, sizeof none) < 0) return errno = EACCES, -1;
    return connected(a, ends[0], here());
}
/* By the machine's other names for itself. */
static long by_address(const struct attempt *a) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(outside_number(targets[a->n].where))};
    inet_pton(AF_INET, a->text, &to.sin_addr);
    int own = made(a->n);
    struct timeval patience = {1, 0};
    setsockopt(own, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (own < 0 || connect(own, (void *)&to, sizeof to) < 0) return -1;
    return write(own, a->token, said(a));
}
static long by_mapped(const struct attempt *a) {
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(outside_number(targets[a->n].where))};
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &to.sin6_addr);
    int own = socket(AF_INET6, targets[a->n].kind, 0);
    if (own < 0 || connect(own, (void *)&to, sizeof to) < 0) return -1;
    return write(own, a->token, said(a));
}

static long by_kind(const struct attempt *a) { return socket(a->n & 0xff, a->n >> 8, a->m); }
static long by_pair_kind(const struct attempt *a) {
    int ends[2];
    return socketpair(a->n & 0xff, a->n >> 8, 0, ends);
}

void add_network(void) {
    for (int t = 0; t < TARGETS; t++) {
        int is_path = t >= STREAM && t <= PACKET, is_datagram = targets[t].kind == SOCK_DGRAM;
        /* IPv6 may be off on the whole machine. */
        enum control control = t == TCP6 || t == UDP6 ? NOBODY : EVERYBODY;
        add("network", REACHED, control, by_connect, "connect-%s", targets[t].name)->n = t;
        if (is_path) {
            add("network", REACHED, EVERYBODY, by_relative, "connect-relative-%s", targets[t].name)->n = t;
            add("network", REACHED, NOBODY, by_self_root, "connect-root-%s", targets[t].name)->n = t;
            add("network", REACHED, EVERYBODY, by_host_cwd, "connect-host-cwd-%s", targets[t].name)->n = t;
        }
        for (int how = 0; is_datagram && how < 3; how++) {
            static const char *const calls[] = {"sendto", "sendmsg", "sendmmsg"};
            struct attempt *a = add("network", REACHED, control, by_send, "%s-%s", calls[how], targets[t].name);
            a->n = t, a->m = how;
            if (t <= UDP6) continue;
            a = add("network", REACHED, EVERYBODY, by_pair_send, "pair-%s-%s", calls[how], targets[t].name);
            a->n = t, a->m = how;
            a = add("network", REACHED, EVERYBODY, by_raw_pair_send, "raw-pair-%s-%s", calls[how], targets[t].name);
            a->n = t, a->m = how;
            a = add("network", REACHED, NOBODY, by_stream_pair_send, "stream-pair-%s-%s", calls[how], targets[t].name);
            a->n = t, a->m = how;
        }
        if (t >= STREAM) {
            enum control reaches = is_datagram ? EVERYBODY : NOBODY;
            add("network", REACHED, reaches, by_pair, "pair-connect-%s", targets[t].name)->n = t;
            for (int packet = 0; packet < 2; packet++) {
                struct attempt *a = add("network", REACHED, NOBODY, by_disconnect, "disconnect-%d-%s", packet, targets[t].name);
                a->n = t, a->m = packet;
            }
        }
        if (t == TCP || t == TCP6)
            for (int how = 0; how < 2; how++) {
                struct attempt *a = add("network", REACHED, NOBODY, by_fast_open, "fast-open-%d-%s", how, targets[t].name);
                a->n = t, a->m = how;
            }
        if (t == TCP || t == UDP) {
            static const char *const names[] = {"0.0.0.0", "127.1.2.3", "127.255.255.254"};
            for (int i = 0; i < 3; i++) {
                struct attempt *a = add("network", REACHED, EVERYBODY, by_address, "connect-%s-%s", names[i], targets[t].name);
                a->n = t, a->text = names[i];
            }
            add("network", REACHED, NOBODY, by_mapped, "connect-mapped-%s", targets[t].name)->n = t;
        }
    }
    for (int i = 0; i < attempt_count; i++)
        if (!strcmp(attempts[i].family, "network")) attempts[i].refusal = ECONNREFUSED;
    /* Every family but the internet's and the kernel's routes. */
    for (int family = 1; family < 46; family++) {
        if (family == AF_INET || family == AF_INET6 || family == AF_NETLINK) continue;
        static const int kinds[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET};
        for (int i = 0; i < 4; i++)
            add("answers", ANSWER, NOBODY, by_kind, "socket-%d-%d", family, kinds[i])->n = family | kinds[i] << 8;
        add("answers", ANSWER, NOBODY, by_kind, "socket-%d-flags", family)->n =
            family | (SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK) << 8;
    }
    for (int protocol = 1; protocol < 23; protocol++) {
        struct attempt *a = add("answers", ANSWER, NOBODY, by_kind, "netlink-%d", protocol);
        a->n = AF_NETLINK | SOCK_RAW << 8, a->m = protocol;
    }
    static const int protocols[] = {IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_RAW, 47, 132};
    for (int i = 0; i < 6; i++) {
        struct attempt *a = add("answers", ANSWER, ROOT, by_kind, "raw-%d", protocols[i]);
        a->n = AF_INET | SOCK_RAW << 8, a->m = protocols[i];
        a = add("answers", ANSWER, NOBODY, by_kind, "raw6-%d", protocols[i]);
        a->n = AF_INET6 | SOCK_RAW << 8, a->m = protocols[i];
    }
    static const int pairs[] = {SOCK_DGRAM, SOCK_RAW};
    for (int i = 0; i < 2; i++) {
        add("answers", ANSWER, EVERYBODY, by_pair_kind, "pair-%d", pairs[i])->n = AF_UNIX | pairs[i] << 8;
        add("answers", ANSWER, EVERYBODY, by_pair_kind, "pair-%d-flags", pairs[i])->n =
            AF_UNIX | (pairs[i] | SOCK_CLOEXEC) << 8;
        add("answers", ANSWER, NOBODY, by_pair_kind, "pair-tipc-%d", pairs[i])->n = 30 | pairs[i] << 8;
    }
}
