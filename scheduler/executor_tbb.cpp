/* SPDX-License-Identifier: Apache-2.0
 * Workers of oneTBB, in an arena for each domain of this executor. The only C++ of the library: no type of it
 * leaves this file and nothing thrown leaves a function.
 *
 * Each wake enqueues one look at the queue of a domain. A look may run late, or never where oneTBB has no
 * worker (one CPU), so it owns what it needs: a gate shared with the executor, closed when that goes. Nothing
 * waits for a look that has not begun. A look binds its thread to the domain and unbinds it when it ends: an
 * observer's exit is not called for threads that are inside when it is switched off, and they belong to the
 * host. oneTBB's own help for NUMA is never used. An arena keeps no place for an application thread: the
 * caller of a run helps on its own thread, outside.
 *
 * With the last executor oneTBB is told to end its threads and is waited for, so that the library can be
 * unloaded. When the process ends instead, with runs under way, oneTBB's own destructors come after ours, and
 * from then on it is not called any more: looks are never owed. A child of a process that has executors of
 * oneTBB cannot have one: its threads are the parent's and its locks may be held. */
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/task_arena.h>

extern "C" {
#include "base/fork.h"
#include "scheduler/executor.h"
}

namespace
{

struct Gate {
    std::mutex lock;
    std::condition_variable left;
    pp_executor *executor; /* null when closed */
    unsigned inside;       /* looks that run */
};

struct Crew {
    std::shared_ptr<Gate> gate;
    std::vector<std::unique_ptr<tbb::task_arena>> arenas; /* of each domain */
    Crew *next = nullptr;                                 /* of the abandoned */

    explicit Crew(pp_executor *executor) : gate(std::make_shared<Gate>())
    {
        gate->executor = executor;
        gate->inside = 0;
        for (std::uint32_t d = 0; d < executor->domains.n; d++) {
            const int room = static_cast<int>(pp_executor_room(executor, d));
            arenas.push_back(std::make_unique<tbb::task_arena>(room > 0 ? room : 1, 0));
        }
    }
};

/* In a forked child: crews whose threads are the parent's. Reachable, so that they do not look lost. */
Crew *volatile abandoned;

/* What all executors of the process have of oneTBB; nothing is left to a static destructor. */
std::mutex use_lock;
unsigned users;
std::atomic<std::uint64_t> used_in{0}; /* the process (base/fork.h) that has users; 0: none has */
tbb::task_scheduler_handle *handle;

bool is_parents() noexcept
{
    const std::uint64_t process = used_in.load();
    return process != 0 && !pp_process_is(process);
}

std::atomic<bool> process_ends;
std::atomic<unsigned> callers; /* inside a call of oneTBB that may come at any time; short */

/* Runs before the destructors of oneTBB, which this library needs. */
__attribute__((destructor)) void call_no_more() noexcept
{
    process_ends.store(true);
    while (callers.load() != 0 && !is_parents()) std::this_thread::yield();
}

void begin_use()
{
    std::lock_guard<std::mutex> hold(use_lock);
    if (users == 0) {
        used_in.store(pp_process_mark()); /* before oneTBB has a thread or takes a lock */
        handle = new tbb::task_scheduler_handle(tbb::attach{});
    }
    users++;
}

/* That the host uses oneTBB too, and its threads stay, is no failure. */
void end_use()
{
    std::lock_guard<std::mutex> hold(use_lock);
    if (--users != 0) return;
    (void)tbb::finalize(*handle, std::nothrow);
    delete handle;
    handle = nullptr;
    used_in.store(0);
}

void look(Gate &gate, std::uint32_t domain) noexcept
{
    pp_executor *executor;
    {
        std::lock_guard<std::mutex> hold(gate.lock);
        executor = gate.executor;
        if (executor == nullptr) return;
        gate.inside++;
    }
    void *entered = pp_executor_enter(executor, domain);
    pp_executor_work(executor, domain);
    pp_executor_leave(executor, entered);
    std::lock_guard<std::mutex> hold(gate.lock);
    gate.inside--;
    gate.left.notify_all();
}

std::uint32_t most() noexcept
{
    const std::size_t now = tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism);
    return static_cast<std::uint32_t>(std::min<std::size_t>(now, UINT32_MAX));
}

ppto_status crew_open(pp_executor *executor, pp_error *err) noexcept
{
    if (is_parents())
        return pp_fail(err, PPTO_E_FORKED, "executor tbb: the parent process has its threads; use pthread");
    bool begun = false;
    ppto_status status = PPTO_E_DEVICE;
    try {
        begin_use();
        begun = true;
        /* More than oneTBB allows would only make it print a warning: the effective width is reported
         * instead. */
        pp_executor_limit(executor, most());
        executor->own = new Crew(executor);
        return PPTO_OK;
    } catch (const std::bad_alloc &) {
        status = pp_fail(err, PPTO_E_NOMEM, "no memory for an arena of oneTBB");
    } catch (const std::exception &failure) {
        (void)pp_fail(err, status, "oneTBB: %s", failure.what());
    } catch (...) {
        (void)pp_fail(err, status, "oneTBB failed");
    }
    if (begun) end_use();
    return status;
}

void crew_close(pp_executor *executor, bool forked) noexcept
{
    Crew *crew = static_cast<Crew *>(executor->own);
    if (forked) { /* a child has one thread here: the one that calls */
        crew->next = abandoned;
        abandoned = crew;
        return;
    }
    try {
        {
            std::unique_lock<std::mutex> hold(crew->gate->lock);
            crew->gate->executor = nullptr;
            crew->gate->left.wait(hold, [crew] { return crew->gate->inside == 0; });
        }
        delete crew;
        end_use();
    } catch (...) { /* nothing can be told here, and nothing of the executor is used any more */
    }
}

/* A look that cannot be enqueued is no failure: the caller of the run does the work. */
void crew_wake(pp_executor *executor, std::uint32_t domain) noexcept
{
    Crew *crew = static_cast<Crew *>(executor->own);
    callers++;
    try {
        std::shared_ptr<Gate> gate = crew->gate;
        if (!process_ends.load())
            crew->arenas[domain]->enqueue([gate, domain]() noexcept { look(*gate, domain); });
    } catch (...) {
    }
    callers--;
}

const pp_executor_class tbb_class = {"tbb",     PP_RUN_THREADS, crew_open, crew_close,
                                     crew_wake, is_parents,     most};

} // namespace

extern "C" const pp_executor_class *const pp_executor_tbb = &tbb_class;
