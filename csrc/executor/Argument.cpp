#include "executor/Argument.h"

namespace at::native::openreg {

void visitTensors(const Argument& argument, TensorVisitor visit) {
  if (argument.type->kind <= ArgumentType::Kind::Tensors) {
    argument.type->visit(argument.value, visit);
  }
}

void visitTensors(ArgumentSpan arguments, TensorVisitor visit) {
  for (const Argument& argument : arguments) {
    visitTensors(argument, visit);
  }
}

std::vector<c10::IValue> boxArguments(ArgumentSpan arguments) {
  std::vector<c10::IValue> boxed;
  boxed.reserve(arguments.size() + 4); // outputs may follow
  for (const Argument& argument : arguments) {
    boxed.push_back(argument.type->box(argument.value));
  }
  return boxed;
}

// --- changed or copied arguments ------------------------------------------------

ArgumentList::~ArgumentList() {
  while (used_ > 0) {
    Slot& slot = slots_[--used_];
    slot.type->destroy(slot.bytes);
  }
}

void ArgumentList::map(ArgumentSpan arguments, TensorMap map) {
  convert(arguments, [&](const Argument& argument, void* slot) {
    return argument.type->kind <= ArgumentType::Kind::Tensors
        ? argument.type->copy(argument.value, map, slot)
        : argument.value;
  });
}

void ArgumentList::hold(ArgumentSpan arguments, TensorMap map) {
  convert(arguments, [&](const Argument& argument, void* slot) {
    return argument.type->copy(argument.value, map, slot);
  });
}

template <class How>
void ArgumentList::convert(ArgumentSpan arguments, How how) {
  slots_ = few_.data();
  if (arguments.size() > few_.size()) {
    many_ = std::make_unique_for_overwrite<Slot[]>(arguments.size());
    slots_ = many_.get();
  }
  arguments_.reserve(arguments.size());
  for (const Argument& argument : arguments) {
    Slot& slot = slots_[used_];
    const void* value = how(argument, slot.bytes);
    if (value != argument.value) {
      slot.type = argument.type;
      ++used_;
    }
    arguments_.push_back({argument.type, value});
  }
}

} // namespace at::native::openreg
