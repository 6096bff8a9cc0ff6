/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The machine that every protocol runs on. docs/protocols/README.md explains it.
 *
 * A site is an instruction word that is written. Its values are numbered in the order of the stores. Caches and
 * fetch queues are bounds on these numbers: a CPU may execute any value from oldest[] to last[]. Barriers raise the
 * bounds no more than the architecture promises, so every machine that keeps its promises is covered.
 *
 * Before this text come SITES, DEPTH (values of a site), VARS, CPUS, TASKS, EITHER and OFF_LIST(word).
 */
#define AT(s, k)     ((s) * DEPTH + (k))
#define OF(c, s)     ((c) * SITES + (s))
#define SEEN(s, k, z) ((AT(s, k)) * SITES + (z))
#define NOWHERE      CPUS

byte word[SITES * DEPTH];        /* values of each site, in the order written */
byte last[SITES];                /* the newest: what a load reads */
byte clean[SITES];               /* the point of unification holds this one or a newer one */
byte cached[SITES];              /* no instruction cache holds an older one */
byte oldest[CPUS * SITES];       /* this CPU executes no older one: it was context-synchronised since */
byte cleaning[CPUS * SITES];     /* DC CVAU was issued and makes this one clean when it completes */
byte clean_from[CPUS * SITES];   /* what a DC CVAU issued now cleans at least */
byte dropping[CPUS * SITES];     /* IC IVAU was issued and makes caches drop older ones when it completes */
byte drop_from[CPUS * SITES];    /* what an IC IVAU issued now refetches at least */
/* What held when a value was written: a CPU that fetched that value did so, and all that follows, after that. */
byte then_last[SITES * DEPTH * SITES];
byte then_clean[SITES * DEPTH * SITES];
byte then_cached[SITES * DEPTH * SITES];

byte data[VARS];
bool pending[CPUS * VARS];       /* a store of this CPU that others do not see yet */
byte stored[CPUS * VARS];

byte pc[TASKS];
byte at[TASKS];                  /* CPU, or NOWHERE */
bool taken[CPUS];
bool interrupted[TASKS];         /* left its CPU by an exception: comes back by one */
bool masked[TASKS];              /* in an exception handler: no interrupts */
bool held[TASKS];                /* synchronize_rcu_tasks() waits for it */
bool all_stopped;                    /* stop_machine() */

bool is_on;                      /* tracing was switched on, for all */
bool was_on[TASKS];              /* ... before this call began */
bool was_traced[TASKS];
byte return_to[TASKS];           /* the address after the call; 0 outside calls */
byte decoder;                    /* what the trace decoder takes the site for: 0 old, 1 either, 2 new */
byte bad;                        /* the reason why this is unsafe */

byte i;                          /* loops; 0 between steps, or they would multiply the states */
byte j;

#define HERE(t, a)           (pc[t] == a && at[t] != NOWHERE)
#define CAN_FETCH(t, s, k)   (k >= oldest[OF(at[t], s)] && k <= last[s])
#define LOAD(c, v)           (pending[(c) * VARS + (v)] -> stored[(c) * VARS + (v)] : data[v])
#define STEP(t, a, w)        printf("@ %d %d %d %d\n", t, at[t], a, w)
#define CHECK                if :: bad != 0 -> printf("! %d\n", bad) :: else fi; assert(bad == 0)
#define RAISE(x, y)          if :: (y) > x -> x = (y) :: else fi

/* Context synchronisation: what this CPU fetched before is fetched again. */
inline synchronise(c) {
    i = 0;
    do
    :: i < SITES -> oldest[OF(c, i)] = cached[i]; i++
    :: else -> i = 0; break
    od
}

/* Maintenance that this CPU issues from now on comes after all that it has done so far. */
inline order_maintenance(c) {
    i = 0;
    do
    :: i < SITES -> clean_from[OF(c, i)] = last[i]; drop_from[OF(c, i)] = clean[i]; i++
    :: else -> i = 0; break
    od
}

inline drain_stores(c) {
    i = 0;
    do
    :: i < VARS ->
        if
        :: pending[(c) * VARS + i] ->
            data[i] = stored[(c) * VARS + i]; pending[(c) * VARS + i] = false; stored[(c) * VARS + i] = 0
        :: else
        fi;
        i++
    :: else -> i = 0; break
    od
}

inline complete_clean(c) {
    i = 0;
    do
    :: i < SITES -> RAISE(clean[i], cleaning[OF(c, i)]); cleaning[OF(c, i)] = 0; i++
    :: else -> i = 0; break
    od
}

/* DMB of both kinds of access: orders stores and DC CVAU, not IC IVAU. */
inline dmb_full(c) {
    drain_stores(c);
    complete_clean(c);
    i = 0;
    do
    :: i < SITES -> clean_from[OF(c, i)] = last[i]; i++
    :: else -> i = 0; break
    od
}

/* DSB of both kinds of access: all maintenance issued before is complete. */
inline dsb_full(c) {
    drain_stores(c);
    complete_clean(c);
    i = 0;
    do
    :: i < SITES -> RAISE(cached[i], dropping[OF(c, i)]); dropping[OF(c, i)] = 0; i++
    :: else -> i = 0; break
    od;
    order_maintenance(c)
}

inline dc_cvau(c, s) { RAISE(cleaning[OF(c, s)], clean_from[OF(c, s)]) }
inline ic_ivau(c, s) { RAISE(dropping[OF(c, s)], drop_from[OF(c, s)]) }

inline write_word(c, s, w) {
    if
    :: last[s] + 1 >= DEPTH -> bad = 7
    :: else ->
        last[s] = last[s] + 1;
        word[AT(s, last[s])] = w;
        clean_from[OF(c, s)] = last[s];
        i = 0;
        do
        :: i < SITES ->
            then_last[SEEN(s, last[s], i)] = last[i];
            then_clean[SEEN(s, last[s], i)] = clean[i];
            then_cached[SEEN(s, last[s], i)] = cached[i];
            i++
        :: else -> i = 0; break
        od
    fi
}

/* A value of a site is executed: with another one possible and one of the two off the list, anything may happen. */
inline execute_word(c, s, k) {
    j = oldest[OF(c, s)];
    do
    :: j < last[s] ->
        if
        :: !EITHER && word[AT(s, j)] != word[AT(s, j + 1)] &&
           (OFF_LIST(word[AT(s, j)]) || OFF_LIST(word[AT(s, j + 1)])) -> bad = 1
        :: else
        fi;
        j++
    :: else -> j = 0; break
    od;
    if
    :: k > 0 ->
        i = 0;
        do
        :: i < SITES ->
            RAISE(oldest[OF(c, i)], then_cached[SEEN(s, k, i)]);
            RAISE(clean_from[OF(c, i)], then_last[SEEN(s, k, i)]);
            RAISE(drop_from[OF(c, i)], then_clean[SEEN(s, k, i)]);
            i++
        :: else -> i = 0; break
        od
    :: else
    fi
}

inline store_data(c, v, x) { pending[(c) * VARS + (v)] = true; stored[(c) * VARS + (v)] = x }

inline call(t, a) { return_to[t] = a; was_on[t] = is_on; was_traced[t] = false }

/* An exception is taken, or returns: both synchronise the context. */
inline exception(t, c) { synchronise(c); masked[t] = true }

/* A task leaves its CPU; __switch_to() has a DSB for that (arch/arm64/kernel/process.c). */
inline leave(t) { dsb_full(at[t]); taken[at[t]] = false; at[t] = NOWHERE }

inline park(t) { printf("p %d %d\n", t, at[t]); synchronise(at[t]); interrupted[t] = true; leave(t) }

inline resume(t, c) {
    printf("r %d %d\n", t, c);
    at[t] = c; taken[c] = true;
    if
    :: interrupted[t] -> synchronise(c); interrupted[t] = false
    :: else
    fi
}
