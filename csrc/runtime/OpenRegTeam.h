// The teams of OpenMP: each thread that ran a parallel region keeps one.
//
// Threads: any; each has a team of its own.
#pragma once

#include <sched.h>

#include <span>

namespace c10::openreg {

// docs:begin give-team-back
/// Ends the team of the calling thread, which launches kernels and does not run them. One
/// operator on CPU tensors made that team, and it counts for good: with more threads in
/// all teams than processors, OpenMP puts the threads of every team to sleep between two
/// regions. The next operator on CPU tensors makes a new team, which takes two
/// milliseconds; so this is done four times a second at most.
// docs:end give-team-back
void giveTeamBack();

// docs:begin spread-team
/// Gives each thread of the calling thread's team a processor of its own, if there are
/// enough. Linux tends to wake a thread on the processor of the thread that wakes it, and
/// leaves it there for milliseconds while another processor is idle: then two threads take
/// turns, and each region lasts as long as with one thread. A thread that shares its
/// processor moves to a free one, and may move again later.
// docs:end spread-team
void spreadTeam(int threads);

// docs:begin rest-team
/// Lets the others of the calling thread's team of so many threads sleep until
/// wakeTeam(). OpenMP would let them spin for three milliseconds after each parallel
/// region, and so take processors away from the threads that launch kernels.
///
/// They sleep in a parallel region that the calling thread has begun and not ended. It
/// goes on in a second region inside of the first, alone, so kernels have one thread.
void restTeam(int threads);
void wakeTeam();
// docs:end rest-team

/// The processor for member number `member` of a team whose threads are on `places`:
/// the first thread on a processor stays there, and the others get processors of
/// `allowed` that are free.
int processorFor(
    int member,
    std::span<const int> places,
    const cpu_set_t& allowed);

} // namespace c10::openreg
