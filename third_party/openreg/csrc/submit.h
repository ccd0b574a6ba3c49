// The one way in: every piece of device work passes through submit().
//
// Threads: any.
#pragma once

#include "openreg.h"
#include "event.h"
#include "stream.h"

#include <new>
#include <type_traits>
#include <utility>

namespace openreg {

/// Checks the device, keeps the order between the default stream and the others,
/// and runs or queues the work as the schedule says, or records it if the stream is
/// capturing. `finished`, if wanted, is
/// what the stream will have reached when the work has run.
orError_t submit(
    Stream& stream,
    const Work& work,
    uint64_t* finished = nullptr);

/// Makes later work of `stream` wait until `other` has reached `finished`.
orError_t submitWait(Stream& stream, Stream& other, uint64_t finished);

/// Makes later work of `stream` wait for what an event stands for.
orError_t submitWait(Stream& stream, const Event::Record& record);

/// Where later work of the stream will come after: its latest task, and in the
/// default stream also those of the streams that share order with it.
orError_t pointAfterAll(Stream& stream, uint64_t* finished);

/// Records a node for an event of outside, or fails if the stream is not capturing.
orError_t captureEventNode(
    Stream& stream,
    orGraphNodeType type,
    orEvent_t event);

/// The errors for handles that name nothing.
orError_t failOnStream(orStream_t handle);
orError_t failOnEvent(orEvent_t handle);

/// submit() for a callable of the library's own.
template <class Callable>
orError_t submitCallable(
    Stream& stream,
    Work work,
    Callable callable,
    uint64_t* finished = nullptr) {
  static_assert(detail::kFitsInSlot<Callable>);
  work.type = &detail::kCallableType<Callable>;
  work.callable = &callable;
  return submit(stream, work, finished);
}

} // namespace openreg
