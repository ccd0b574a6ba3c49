// Launching C++ callables. Included by openreg.h; all of it is header-only over
// orLaunchCallable(), so that no C++ type crosses the library's border.
#pragma once

#include <cstddef>
#include <functional>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

namespace openreg::detail {

// A callable and its arguments. A graph calls it many times, so the arguments are
// moved from only where they can be passed in no other way.
template <class Function, class... Args>
struct Call {
  Function function;
  std::tuple<Args...> args;

  void operator()() {
    if constexpr (std::is_invocable_v<Function&, Args&...>) {
      std::apply(function, args);
    } else {
      std::apply(std::move(function), std::move(args));
    }
  }
};

template <class Callable>
inline constexpr bool kFitsInSlot =
    sizeof(Callable) <= OPENREG_CALLABLE_BYTES &&
    alignof(Callable) <= alignof(void*) &&
    std::is_nothrow_move_constructible_v<Callable>;

// What the queue keeps of a callable that is too large for a slot.
template <class Callable>
struct Boxed {
  Callable* callable;

  void operator()() {
    (*callable)();
  }
  explicit Boxed(Callable* owned) noexcept : callable(owned) {}
  Boxed(Boxed&& other) noexcept
      : callable(std::exchange(other.callable, nullptr)) {}
  ~Boxed() {
    delete callable;
  }
};

template <class Callable>
inline constexpr orCallableType kCallableType{
    sizeof(Callable),
    [](void* callable) { (*static_cast<Callable*>(callable))(); },
    std::is_trivially_copyable_v<Callable>
        ? nullptr
        : +[](void* to, void* from) {
            ::new (to) Callable(std::move(*static_cast<Callable*>(from)));
          },
    std::is_trivially_destructible_v<Callable>
        ? nullptr
        : +[](void* callable) { static_cast<Callable*>(callable)->~Callable(); },
};

template <class Callable>
orError_t launch(
    const orLaunchConfig* config,
    orStream_t stream,
    Callable&& callable) {
  using Plain = std::decay_t<Callable>;
  if constexpr (kFitsInSlot<Plain>) {
    Plain local(std::forward<Callable>(callable));
    return orLaunchCallable(stream, &kCallableType<Plain>, &local, config);
  } else {
    Boxed<Plain> box(new Plain(std::forward<Callable>(callable)));
    return orLaunchCallable(stream, &kCallableType<Boxed<Plain>>, &box, config);
  }
}

} // namespace openreg::detail

/// Launches `callable(args...)` in `stream` under a name and flags. The callable
/// and its arguments are copied or moved along; small ones are stored inside the
/// queue. Errors are those of orLaunchCallable(). CUDA twin: cudaLaunchKernelEx.
template <class Callable, class... Args>
orError_t orLaunchKernelEx(
    const orLaunchConfig* config,
    orStream_t stream,
    Callable&& callable,
    Args&&... args) {
  namespace detail = openreg::detail;
  if constexpr (sizeof...(Args) == 0) {
    return detail::launch(config, stream, std::forward<Callable>(callable));
  } else {
    using Call = detail::Call<std::decay_t<Callable>, std::decay_t<Args>...>;
    return detail::launch(
        config,
        stream,
        Call{std::forward<Callable>(callable), {std::forward<Args>(args)...}});
  }
}

/// Launches `callable(args...)` in `stream`; it is always queued. CUDA twin:
/// kernel<<<…, stream>>>(args...).
template <class Callable, class... Args>
orError_t orLaunchKernel(
    orStream_t stream,
    Callable&& callable,
    Args&&... args) {
  return orLaunchKernelEx(
      nullptr,
      stream,
      std::forward<Callable>(callable),
      std::forward<Args>(args)...);
}
