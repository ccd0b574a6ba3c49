// Registration of what refuses in place of a GPU.
#pragma once

namespace at::openreg {

/// Has operators refuse what a GPU refuses, if OPENREG_STRICT is set; else nothing is
/// registered, and no call is slower. After the first time nothing happens.
void registerStrict();

} // namespace at::openreg
