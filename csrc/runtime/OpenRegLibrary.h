// How operators are registered for the device type that is served.
#pragma once

#include "runtime/OpenRegDeviceType.h"

#include <torch/library.h>

// docs:begin library-impl
/// TORCH_LIBRARY_IMPL for a key of PrivateUse1, or for CUDA's key if the library serves
/// CUDA. A backend with one name needs only PyTorch's own macro.
#define OPENREG_LIBRARY_IMPL(ns, key, m) \
  OPENREG_LIBRARY_IMPL_AS(ns, key, m, C10_UID)
// docs:end library-impl
#define OPENREG_LIBRARY_IMPL_AS(ns, key, m, id)                 \
  static void C10_CONCATENATE(                                  \
      openregRegister_##ns##_##key##_, id)(torch::Library&);    \
  static const torch::detail::TorchLibraryInit C10_CONCATENATE( \
      openregRegistered_##ns##_##key##_, id)(                   \
      torch::Library::IMPL,                                     \
      &C10_CONCATENATE(openregRegister_##ns##_##key##_, id),    \
      #ns,                                                      \
      c10::openreg::servedKey(c10::DispatchKey::key),           \
      __FILE__,                                                 \
      __LINE__);                                                \
  void C10_CONCATENATE(openregRegister_##ns##_##key##_, id)(torch::Library & m)
