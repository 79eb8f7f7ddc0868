/* SPDX-License-Identifier: Apache-2.0
 * The protocol of a run of the dispatcher, for Spin: submit, ready, complete (by a worker or by somebody else),
 * wait, cancel, failure, shutdown; WORKERS places (0 is the caller) and six steps of one task each.
 *
 * A lock of the code is an atomic block here; what the code does without the lock is a step of its own. That
 * an executor's thread looks "sooner, later or never" is a free choice, and so is whether a wake is worth it.
 *
 * Checklist: what each part stands for. Change both together.
 *   propagate      make_ready and drain of scheduler/dispatch_ready.c: settle, open or skip what waited
 *   wake           wake of dispatch_threads.c; taken = 0: the thread will not work on, so somebody must
 *   worker: take   take_ready, take_foreign and work; the best rank is the lowest number; MINE is what is common
 *                  or of the worker's domain; whether another's task is small enough to help with is a free choice
 *   worker: run    pp_dispatch_task of dispatch_task.c: skips, runs, or arms a wait (PP_STEP_ASYNC)
 *   take another   pp_dispatch_batch_take of dispatch_batch.c; run_one, follow: pp_dispatch_batch_run; the end of
 *                  the task: pp_dispatch_batch_settle (with -DBATCH; then without domains)
 *   worker: leave  the end of pp_dispatch_slot_main, which wakes a resting caller
 *   caller: rest   rest and take_back of dispatch_threads.c, with the count of waits begun meanwhile
 *   caller: shut   collect of dispatch_threads.c: takes back what no thread began, waits for the others
 *   completer      pp_dispatch_complete (dispatch.c): takes the task from `withdraw`, later settles it; with
 *                  -DASKED step 4 is a file's (file_steps.c): taking back only asks, and it is completed as
 *                  withdrawn (PP_STEP_WITHDRAWN) when the engine has let go
 *   canceller      the flag of pp_run_options.cancel, then pp_dispatch_wake
 *   failure        note_failure of dispatch_task.c
 *
 * Without the count of waits begun (FORGET) a wait that begins while the caller takes back is never taken back:
 * the search must find that hang. So must it when the caller leaves tasks of other domains alone (SELFISH).
 *
 * Checked: no state without a way on but the end; every step settled exactly once; a step runs after all it
 * needs, and never twice; nobody touches the run when its caller has returned. */

#ifndef WORKERS
#define WORKERS 4
#endif
#define STEPS 6
#define ALL 63
#define BIT(t) (1 << (t))

/* 2 needs 0 and 1; 3 needs 2; 4 needs 1; 5 needs 3 and 4. 1 and 4 wait for somebody else; 3 may fail. */
#define NEEDS(t) ((t) == 2 -> 3 : ((t) == 3 -> 4 : ((t) == 4 -> 2 : ((t) == 5 -> 24 : 0))))
#ifdef BATCH /* what does not wait is single; only 4 waits, so that two single steps are ready at once */
#define WAITS(t) ((t) == 4)
#define SINGLE(t) ((t) != 4)
#else
#define WAITS(t) ((t) == 1 || (t) == 4)
#define SINGLE(t) false
#endif
#define SOLE(t) ((t) == 2) /* leads to 3 alone, which needs it alone */
#define NOTHING 6

/* 2 belongs to domain 0, 3 and 5 to domain 1, where the odd workers are; the others are common. */
#ifdef BATCH
#define MINE(me) ALL
#else
#define MINE(me) (((me) & 1) == 0 -> 23 : 59)
#endif
#ifdef SELFISH
#define CALLERS MINE(0)
#else
#define CALLERS ALL
#endif

byte settled, ready, ran, armed, spoiled; /* bit sets of steps */
bool looking, begun; /* the caller takes back; a wait began meanwhile */
bool asked;          /* step 4 to end */
bool cancel, failed, absent;
bool caller_waits, signalled, returned;
byte place[WORKERS]; /* 0 free, 1 submitted, 2 inside */
byte busy;

#define OVER (cancel || failed)

inline propagate(t, i)
{
    assert(!returned && (settled & BIT(t)) == 0);
    settled = settled | BIT(t);
    i = 0;
    do
    :: i < STEPS ->
        if
        :: (settled & BIT(i)) == 0 && (ready & BIT(i)) == 0 && (ran & BIT(i)) == 0 &&
           (settled & NEEDS(i)) == NEEDS(i) ->
            if
            :: OVER || (spoiled & NEEDS(i)) != 0 ->
                settled = settled | BIT(i);
                spoiled = spoiled | BIT(i);
            :: else -> ready = ready | BIT(i);
            fi
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

/* taken: 1 when the thread goes on to claim. */
inline wake(taken, i)
{
    if
    :: (settled == ALL || (ready != 0 && taken == 0)) && caller_waits ->
        caller_waits = false;
        signalled = true
    :: else
    fi;
    if
    :: ready != 0 -> /* worth a worker, or not */
        i = 1;
        do
        :: i < WORKERS ->
            if
            :: place[i] == 0 && (ready & MINE(i)) != 0 ->
                place[i] = 1;
                busy++;
                break
            :: else -> i++
            fi
        :: else -> break
        od;
        i = 0
    :: true
    fi
}

/* What does not wait: it is skipped, or runs and may fail. Without the lock. */
inline run_one(t)
{
    if
    :: atomic { OVER -> spoiled = spoiled | BIT(t) } /* looked at without the lock, before the task */
    :: atomic { !OVER -> skip };
        if
        :: t == 3 ->
            atomic {
                failed = true;
                spoiled = spoiled | BIT(t);
                if
                :: caller_waits ->
                    caller_waits = false;
                    signalled = true
                :: else
                fi
            }
        :: true
        fi
    fi
}

/* After step t, the one that it alone leads to, or not. */
inline follow(t)
{
    if
    :: atomic {
            SINGLE(t) && SOLE(t) && !OVER && (spoiled & BIT(t)) == 0 ->
            assert((ran & BIT(3)) == 0 && (ready & BIT(3)) == 0 && (settled & BIT(3)) == 0);
            ran = ran | BIT(3);
            passed = true;
            t = 3
        }
        run_one(t)
    :: true
    fi
}

proctype worker(byte me)
{
    byte t, u = NOTHING, i, may;
    bool took, passed;
enter:
    if
    :: me == 0
    :: me != 0 ->
end_idle:
        atomic { place[me] == 1 -> place[me] = 2 }
    fi;
take:
    atomic {
        if
        :: (ready & (me == 0 -> CALLERS : ALL)) != 0 ->
            may = ((ready & MINE(me)) != 0 -> MINE(me) : (me == 0 -> CALLERS : ALL));
            t = 0;
            do
            :: (ready & may & BIT(t)) != 0 -> break
            :: else -> t++
            od;
            may = 0;
            ready = ready & ~BIT(t);
            assert((ran & BIT(t)) == 0 && (settled & NEEDS(t)) == NEEDS(t));
            ran = ran | BIT(t);
            if
            :: SINGLE(t) && ready != 0 -> /* takes another with it, or not */
                u = 0;
                do
                :: u == NOTHING || ((ready & BIT(u)) != 0 && SINGLE(u)) -> break
                :: else -> u++
                od;
                if
                :: u != NOTHING ->
                    ready = ready & ~BIT(u);
                    assert((ran & BIT(u)) == 0 && (settled & NEEDS(u)) == NEEDS(u));
                    ran = ran | BIT(u)
                :: else
                fi
            :: true
            fi;
            goto task
        :: (ready & MINE(me)) == 0 && me != 0 ->
            place[me] = 0;
            busy--;
            if
            :: caller_waits ->
                caller_waits = false;
                signalled = true
            :: else
            fi;
            t = 0;
            goto enter
        :: (ready & CALLERS) == 0 && me == 0 && settled == ALL -> goto shut
        :: (ready & CALLERS) == 0 && me == 0 && settled != ALL -> goto rest
        fi
    }
task:
    if
    :: atomic {
            OVER && WAITS(t) ->
            spoiled = spoiled | BIT(t);
            propagate(t, i);
            wake(1, i)
        }
    :: atomic { !OVER && WAITS(t) -> skip };
        atomic { armed = armed | BIT(t) } /* from here on anybody may complete it, or take it back */
#ifndef FORGET
        atomic { begun = looking }
#endif
    :: atomic { !WAITS(t) -> skip };
        run_one(t);
        follow(t);
        if
        :: u != NOTHING ->
            run_one(u);
            follow(u)
        :: else
        fi;
        atomic {
            if
            :: passed -> settled = settled | BIT(2)
            :: else
            fi;
            propagate(t, i);
            if
            :: u != NOTHING -> propagate(u, i)
            :: else
            fi;
            passed = false;
            u = NOTHING;
            wake(1, i)
        }
    fi;
    t = 0;
    goto take;

rest: /* the lock is held from `take` on: nothing was ready and not all settled */
    atomic {
        if
        :: (ready & CALLERS) != 0 || settled == ALL -> goto take
        :: else
        fi;
        if
        :: OVER ->
            looking = true;
            begun = false;
            goto back
        :: else ->
            caller_waits = true;
            goto wait
        fi
    }
back: /* take_back: without the lock, one step after the other */
    took = false;
    atomic {
        if
        :: (armed & BIT(1)) != 0 ->
            armed = armed & ~BIT(1);
            spoiled = spoiled | BIT(1);
            propagate(1, i);
            wake(0, i);
            took = true
        :: else
        fi
    }
    atomic {
        if
        :: (armed & BIT(4)) != 0 ->
#ifdef ASKED
            asked = true
#else
            armed = armed & ~BIT(4);
            spoiled = spoiled | BIT(4);
            propagate(4, i);
            wake(0, i);
            took = true
#endif
        :: else
        fi
    }
    atomic {
        if
        :: took || (ready & CALLERS) != 0 || settled == ALL || begun ->
            took = false;
            looking = false;
            begun = false;
            goto take
        :: else ->
            looking = false;
            caller_waits = true;
            goto wait
        fi
    }
wait:
    atomic { signalled -> signalled = false; caller_waits = false }
    goto take;

shut:
    atomic {
        i = 1;
        do
        :: i < WORKERS ->
            if
            :: place[i] == 1 ->
                place[i] = 0;
                busy--
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0
    }
gone:
    atomic {
        if
        :: busy == 0 ->
            returned = true;
            goto done
        :: else ->
            caller_waits = true
        fi
    }
    atomic { signalled -> signalled = false; caller_waits = false }
    goto gone;
done:
    assert(settled == ALL && armed == 0 && busy == 0)
}

proctype completer()
{
    byte t, i;
end_wait:
    do
    :: atomic { !absent && (armed & BIT(1)) != 0 -> armed = armed & ~BIT(1); t = 1 }
        atomic { propagate(t, i); wake(0, i); t = 0 }
    :: atomic { !absent && (armed & BIT(4)) != 0 -> armed = armed & ~BIT(4); t = 4 }
        atomic { propagate(t, i); wake(0, i); t = 0 }
    :: atomic { asked && (armed & BIT(4)) != 0 -> armed = armed & ~BIT(4); spoiled = spoiled | BIT(4); t = 4 }
        atomic { propagate(t, i); wake(0, i); t = 0 }
    od
}

proctype canceller()
{
    if
    :: !absent /* nobody cancels */
    :: true ->
        cancel = true;
        atomic {
            if
            :: caller_waits ->
                caller_waits = false;
                signalled = true
            :: else
            fi
        }
    fi
}

init {
    byte i;
    atomic {
        if
        :: absent = true
        :: absent = false
        fi;
        ready = 3; /* pp_dispatch_begin: 0 and 1 need nothing */
        wake(1, i);
        run completer();
        run canceller();
        i = 0;
        do
        :: i < WORKERS ->
            run worker(i);
            i++
        :: else -> break
        od
    }
}
