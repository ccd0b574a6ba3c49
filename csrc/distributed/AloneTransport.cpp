#include "distributed/AloneTransport.h"

#include <algorithm>
#include <cstring>

namespace c10::openreg::occl {

Moment AloneTransport::run(const Collective& call, Deadline /*deadline*/) {
  const Span* own = call.given(rank_);
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const Span& to = call.outputs[i];
    const Span* from = call.kind == Kind::AllToAll && i < call.inputs.size()
        ? &call.inputs[i]
        : own;
    if (from && from->data != to.data) {
      std::memmove(to.data, from->data, std::min(to.bytes, from->bytes));
    }
  }
  return {}; // long ago
}

void AloneTransport::transfer(
    const std::vector<Transfer>& messages,
    Deadline /*deadline*/) {
  for (const Transfer& message : messages) {
    if (message.kind == Kind::Receive) {
      std::memset(message.memory.data, 0, message.memory.bytes);
      if (message.source) {
        *message.source = std::max(message.peer, 0);
      }
    }
  }
}

} // namespace c10::openreg::occl
