#include "remote/Values.h"

#include <ATen/core/Generator.h>
#include <ATen/core/List.h>

namespace c10::openreg::remote {

// --- writing --------------------------------------------------------------------

WireValue& ValueList::append(ValueKind kind) {
  values_.emplace_back().kind = kind;
  return values_.back();
}

void ValueList::addGenerator(const at::Generator& generator) {
  auto& from = *generator.get<at::CPUGeneratorImpl>();
  const GeneratorState& state =
      *states_.emplace_back(std::make_unique<GeneratorState>(
          from.engine().data(),
          from.next_float_normal_sample(),
          from.next_double_normal_sample()));
  append(ValueKind::Generator).text = {
      reinterpret_cast<const char*>(&state), sizeof(state)};
  ++count_;
}

bool ValueList::addPlain(const IValue& value) {
  if (value.isNone()) {
    append(ValueKind::None);
  } else if (value.isBool()) {
    append(ValueKind::Bool).number = value.toBool();
  } else if (value.isInt()) {
    append(ValueKind::Int).number = value.toInt();
  } else if (value.isDouble()) {
    append(ValueKind::Double).real = value.toDouble();
  } else if (value.isComplexDouble()) {
    WireValue& number = append(ValueKind::Complex);
    number.real = value.toComplexDouble().real();
    number.imaginary = value.toComplexDouble().imag();
  } else if (value.isString()) {
    append(ValueKind::String).text = value.toStringRef();
  } else if (value.isDevice()) {
    append(ValueKind::Device);
    return value.toDevice().is_cpu();
  } else if (value.isGenerator()) {
    if (value.toGenerator().device().type() != c10::kCPU) {
      return false;
    }
    addGenerator(value.toGenerator());
    --count_; // add() counts it
  } else if (value.isIntList()) {
    append(ValueKind::Ints).ints = ints_.emplace_back(value.toIntVector());
  } else if (value.isDoubleList()) {
    append(ValueKind::Doubles).doubles =
        doubles_.emplace_back(value.toDoubleVector());
  } else if (value.isBoolList()) {
    auto& bools = bools_.emplace_back();
    for (const bool item : value.toBoolList()) {
      bools.push_back(item);
    }
    append(ValueKind::Bools).bools = bools;
  } else if (value.isList()) {
    const auto items = value.toListRef();
    append(ValueKind::List).number = static_cast<int64_t>(items.size());
    for (const IValue& item : items) {
      // Numbers and words; lists of anything else have no form here.
      if (!(item.isScalar() || item.isString()) || !addPlain(item)) {
        return false;
      }
    }
  } else {
    return false;
  }
  return true;
}

void ValueList::write(Writer& writer) const {
  writer.put<uint64_t>(count_);
  for (const WireValue& value : values_) {
    putValue(writer, value);
  }
}

WireTensor describeTensor(const TensorImpl& tensor) {
  WireTensor described;
  described.dtype = static_cast<uint32_t>(typeMetaToScalarType(tensor.dtype()));
  described.itemBytes = static_cast<uint32_t>(tensor.itemsize());
  described.flags = (tensor.is_conj() ? kConj : 0u) |
      (tensor.is_neg() ? kNeg : 0u) |
      (tensor.is_wrapped_number() ? kWrappedNumber : 0u);
  described.offset = tensor.storage_offset();
  described.sizes = {tensor.sizes().data(), tensor.sizes().size()};
  described.strides = {tensor.strides().data(), tensor.strides().size()};
  return described;
}

// --- reading --------------------------------------------------------------------

ScalarType dtypeOf(const WireTensor& tensor) {
  const auto dtype = static_cast<ScalarType>(tensor.dtype);
  if (tensor.dtype >= static_cast<uint32_t>(ScalarType::Undefined) ||
      elementSize(dtype) != tensor.itemBytes) {
    failWire(
        "dtype ",
        tensor.dtype,
        " has no elements of ",
        tensor.itemBytes,
        " bytes");
  }
  return dtype;
}

void applyMetadata(TensorImpl& tensor, const WireTensor& metadata) {
  const IntArrayRef sizes(metadata.sizes.data(), metadata.sizes.size());
  const IntArrayRef strides(metadata.strides.data(), metadata.strides.size());
  if (tensor.sizes() != sizes || tensor.strides() != strides ||
      tensor.storage_offset() != metadata.offset) {
    tensor.set_sizes_and_strides(sizes, strides, metadata.offset);
  }
  if ((metadata.flags & kConj) != 0 && !isComplexType(dtypeOf(metadata))) {
    throw WireError("only complex numbers can be conjugate");
  }
  tensor._set_conj((metadata.flags & kConj) != 0);
  tensor._set_neg((metadata.flags & kNeg) != 0);
  if (tensor.dim() == 0 && (metadata.flags & kWrappedNumber) != 0) {
    tensor.set_wrapped_number(true);
  }
}

at::Tensor makeTensor(const WireTensor& metadata, Storage storage) {
  auto tensor = at::detail::make_tensor<TensorImpl>(
      std::move(storage),
      DispatchKeySet(DispatchKey::CPU),
      scalarTypeToTypeMeta(dtypeOf(metadata)));
  applyMetadata(*tensor.unsafeGetTensorImpl(), metadata);
  return tensor;
}

const WireValue& ValueReader::take() {
  if (atEnd()) {
    failWire(
        "a call has more arguments or results than the ",
        values_.size(),
        " in its message");
  }
  return values_[next_++];
}

at::Tensor ValueReader::tensorAt(int64_t index) const {
  return index < 0 ? at::Tensor() : tensors_[static_cast<size_t>(index)];
}

void ValueReader::nextState(const at::Generator& generator) {
  const WireValue& value = take();
  GeneratorState state{};
  if (value.kind != ValueKind::Generator ||
      value.text.size() != sizeof(state)) {
    throw WireError("expected the state of a generator");
  }
  static_assert(std::is_trivially_copyable_v<GeneratorState>);
  std::memcpy(&state, value.text.data(), sizeof(state));
  at::mt19937 engine;
  engine.set_data(state.engine);
  if (!engine.is_valid()) {
    throw WireError("no generator has such a state");
  }
  auto& to = *generator.get<at::CPUGeneratorImpl>();
  to.set_engine(engine);
  to.set_next_float_normal_sample(state.nextFloat);
  to.set_next_double_normal_sample(state.nextDouble);
}

IValue ValueReader::next(const TypePtr& type) {
  const WireValue& value = take();
  switch (value.kind) {
    case ValueKind::None:
      return {};
    case ValueKind::Bool:
      return value.number != 0;
    case ValueKind::Int:
      return value.number;
    case ValueKind::Double:
      return value.real;
    case ValueKind::Complex:
      return c10::complex<double>(value.real, value.imaginary);
    case ValueKind::String:
      return std::string(value.text);
    case ValueKind::Device:
      return c10::Device(c10::kCPU);
    case ValueKind::Generator: {
      --next_;
      at::Generator generator = at::detail::createCPUGenerator();
      nextState(generator);
      return generator;
    }
    case ValueKind::Tensor:
      return tensorAt(value.number);
    case ValueKind::Ints:
      return std::vector<int64_t>(value.ints.begin(), value.ints.end());
    case ValueKind::Doubles:
      return std::vector<double>(value.doubles.begin(), value.doubles.end());
    case ValueKind::Bools: {
      c10::List<bool> bools;
      for (const uint8_t item : value.bools) {
        bools.push_back(item != 0);
      }
      return bools;
    }
    case ValueKind::Tensors: {
      c10::List<at::Tensor> tensors;
      for (const int32_t index : value.tensors) {
        tensors.push_back(tensorAt(index));
      }
      return tensors;
    }
    case ValueKind::OptionalTensors: {
      c10::List<std::optional<at::Tensor>> tensors;
      for (const int32_t index : value.tensors) {
        tensors.push_back(
            index == kNone ? std::nullopt : std::optional(tensorAt(index)));
      }
      return tensors;
    }
    case ValueKind::List: {
      TypePtr wanted = type;
      if (const auto optional = wanted->cast<OptionalType>()) {
        wanted = optional->getElementType();
      }
      const auto list = wanted->cast<ListType>();
      if (!list) {
        failWire("a list where ", type->str(), " is wanted");
      }
      c10::impl::GenericList items(list->getElementType());
      for (int64_t left = value.number; left > 0; --left) {
        items.push_back(next(list->getElementType()));
      }
      return items;
    }
  }
  throw WireError("a value of unknown kind");
}

} // namespace c10::openreg::remote
