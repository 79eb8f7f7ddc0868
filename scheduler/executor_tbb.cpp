/* SPDX-License-Identifier: Apache-2.0
 * Workers of oneTBB, in an arena for each domain of this executor. The only C++ of the library: no type of it
 * leaves this file and nothing thrown leaves a function.
 *
 * Each wake enqueues one look at the queue of a domain. A look may run late, or never where oneTBB has no
 * worker (one CPU), so it owns what it needs: a gate shared with the executor, closed when that goes. Nothing
 * waits for a look that has not begun. A look binds its thread to the domain and unbinds it when it ends: an
 * observer's exit is not called for threads that are inside when it is switched off, and they belong to the
 * host. oneTBB's own help for NUMA is never used. An arena keeps no place for an application thread: the
 * caller of a run helps on its own thread, outside. oneTBB's limit of threads is raised only when the
 * executor was asked for more than its default. */
#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/task_arena.h>

extern "C" {
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

ppto_status crew_open(pp_executor *executor, pp_error *err) noexcept
{
    try {
        /* More than oneTBB allows would only make it print a warning: the effective width is reported
         * instead. */
        const std::size_t most =
            tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism);
        pp_executor_limit(executor, static_cast<std::uint32_t>(std::min<std::size_t>(most, UINT32_MAX)));
        executor->own = new Crew(executor);
        return PPTO_OK;
    } catch (const std::bad_alloc &) {
        return pp_fail(err, PPTO_E_NOMEM, "no memory for an arena of oneTBB");
    } catch (const std::exception &failure) {
        return pp_fail(err, PPTO_E_DEVICE, "oneTBB: %s", failure.what());
    } catch (...) {
        return pp_fail(err, PPTO_E_DEVICE, "oneTBB failed");
    }
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
    } catch (...) { /* nothing can be told here, and nothing of the executor is used any more */
    }
}

/* A look that cannot be enqueued is no failure: the caller of the run does the work. */
void crew_wake(pp_executor *executor, std::uint32_t domain) noexcept
{
    Crew *crew = static_cast<Crew *>(executor->own);
    try {
        std::shared_ptr<Gate> gate = crew->gate;
        crew->arenas[domain]->enqueue([gate, domain]() noexcept { look(*gate, domain); });
    } catch (...) {
    }
}

const pp_executor_class tbb_class = {"tbb", PP_RUN_THREADS, crew_open, crew_close, crew_wake};

} // namespace

extern "C" const pp_executor_class *const pp_executor_tbb = &tbb_class;
