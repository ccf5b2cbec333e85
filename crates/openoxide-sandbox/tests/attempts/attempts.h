/*! What the parts of the attempts share: the form of an attempt, and how one is added to the table.
 *
 *  An attempt is one try to leave the sandbox. It runs in a process of its own inside; whether it got through is seen
 *  from outside, by its effect. `main.c` runs them; the other files fill the table, one family each. */
#ifndef ATTEMPTS_H
#define ATTEMPTS_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What shows that an attempt got through. */
enum effect {
    CANARY,  /* something below `outside/NAME` changed */
    SECRET,  /* the attempt printed a text that begins with `secret-` */
    PLACES,  /* a protected name of its workspace changed or was made */
    REACHED, /* somebody outside (`outside.c`) received the attempt's token */
    ANSWER,  /* the kernel's answer is no refusal; for what has no effect, or too large a one */
};

/* Who gets through without a sandbox, which shows that the attempt is a real one. */
enum control { EVERYBODY, ROOT, NOBODY };

struct attempt {
    char name[96];
    char token[96];
    const char *family;
    enum effect effect;
    enum control control;
    /* Negative with `errno` where it is refused. */
    long (*run)(const struct attempt *);
    /* What the function wants to know, by its own convention. */
    long n, m;
    const char *text, *more;
    /* For `PLACES`: the workspace below `p`, shared by attempts that do not disturb one another, and what of it shows that
     * this one got through. */
    const char *workspace, *place;
    /* An answer that also counts as a refusal; 0 for none. */
    int refusal;
};

extern struct attempt attempts[];
extern int attempt_count;
/* The directory in which the house stands. The workspace is the working directory. */
extern const char *base;

/* Adds an attempt, named by a format, and gives it back to be filled in. */
struct attempt *add(const char *family, enum effect effect, enum control control,
                    long (*run)(const struct attempt *), const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* A text made in memory that nobody frees: each attempt has its own process, and the tables live as long as it. */
char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What `outside.c` says of itself; 0 or "" where it did not run. */
long outside_number(const char *key);
const char *outside_text(const char *key);

/* Prints what was read, for whoever looks for secrets in it. */
long tell(const struct attempt *a, const char *bytes, long count);

void add_files(void);
void add_secrets(void);
void add_kernel(void);
void add_numbers(void);
void add_processes(void);
void add_network(void);
void add_protected(void);
void prepare_workspace(const struct attempt *a);

int run_outside(void);

#endif
