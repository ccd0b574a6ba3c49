// Compiled before the operators of examples/mini_backend: LEAVE_OUT names one
// registration, such as "PrivateUse1 view", that is left out.
#pragma once

#include <torch/library.h>

#include <cstdlib>
#include <string>

struct AllButOne {
  torch::Library& library;
  std::string key;

  template <class Kernel>
  void impl(const std::string& name, Kernel&& kernel) {
    if (!isLeftOut(name)) {
      library.impl(name.c_str(), std::forward<Kernel>(kernel));
    }
  }
  void fallback(torch::CppFunction&& kernel) {
    if (!isLeftOut("fallback")) {
      library.fallback(std::move(kernel));
    }
  }

 private:
  bool isLeftOut(const std::string& name) const {
    const char* leftOut = std::getenv("LEAVE_OUT");
    return leftOut && key + ' ' + name == leftOut;
  }
};

#undef TORCH_LIBRARY_IMPL
#define TORCH_LIBRARY_IMPL(space, key, m) ALL_BUT_ONE(space, key, m, __LINE__)
#define ALL_BUT_ONE(space, key, m, line) ALL_BUT_ONE_(space, key, m, line)
#define ALL_BUT_ONE_(space, key, m, line)                                   \
  static void addOperators##line(AllButOne m);                              \
  static const torch::detail::TorchLibraryInit operators##line(             \
      torch::Library::IMPL,                                                 \
      [](torch::Library& library) { addOperators##line({library, #key}); }, \
      #space,                                                               \
      c10::DispatchKey::key,                                                \
      __FILE__,                                                             \
      __LINE__);                                                            \
  void addOperators##line(AllButOne m)
