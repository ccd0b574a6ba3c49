// Operator arguments and results as messages carry them.
#pragma once

#include "remote/Wire.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <memory>
#include <optional>
#include <vector>

namespace c10::openreg::remote {

/// The state that a CPU generator draws from, as bytes: both processes have the same
/// torch.
struct GeneratorState {
  at::mt19937_data_pod engine;
  std::optional<float> nextFloat;
  std::optional<double> nextDouble;
};

/// Describes values for a message; tensors become indices. What is described must
/// outlive the list.
class ValueList {
 public:
  /// Returns false if a value of that type, or one of its tensors, cannot cross.
  /// `indexOf(tensor)` gives the index of a defined tensor, or kNone.
  template <class IndexOf>
  bool add(const IValue& value, IndexOf&& indexOf);

  /// The state of a generator of the CPU.
  void addGenerator(const at::Generator& generator);

  void write(Writer& writer) const;

 private:
  bool addPlain(const IValue& value);
  WireValue& append(ValueKind kind);

  size_t count_ = 0; // without those inside of lists
  std::vector<WireValue> values_;
  // What values point to. The numbers stay where they are when more lists come.
  std::vector<std::vector<int64_t>> ints_;
  std::vector<std::vector<double>> doubles_;
  std::vector<std::vector<uint8_t>> bools_;
  std::vector<std::vector<int32_t>> indices_;
  std::vector<std::unique_ptr<GeneratorState>> states_;
};

/// The metadata of a tensor, without its storage.
WireTensor describeTensor(const TensorImpl& tensor);

/// Gives a tensor these metadata. Throws WireError if there is no such dtype, or if its
/// elements have another size.
ScalarType dtypeOf(const WireTensor& tensor);
void applyMetadata(TensorImpl& tensor, const WireTensor& metadata);

/// A CPU tensor with these metadata over a storage.
at::Tensor makeTensor(const WireTensor& metadata, Storage storage);

/// Reads values back, one after the other.
class ValueReader {
 public:
  ValueReader(
      const std::vector<WireValue>& values,
      const std::vector<at::Tensor>& tensors)
      : values_(values), tensors_(tensors) {}

  bool atEnd() const {
    return next_ == values_.size();
  }

  /// The next value, for an argument or result of that type. Throws WireError if
  /// there is none.
  IValue next(const TypePtr& type);

  /// Sets a generator of the CPU to the next value, which must be a state.
  void nextState(const at::Generator& generator);

 private:
  const WireValue& take();
  at::Tensor tensorAt(int64_t index) const;

  const std::vector<WireValue>& values_;
  const std::vector<at::Tensor>& tensors_;
  size_t next_ = 0;
};

template <class IndexOf>
bool ValueList::add(const IValue& value, IndexOf&& indexOf) {
  bool crosses = true;
  const auto indexOrUndefined = [&](const at::Tensor& tensor) {
    const int32_t index = tensor.defined() ? indexOf(tensor) : kUndefined;
    crosses = crosses && index != kNone;
    return index;
  };
  const auto addIndices = [&](ValueKind kind, auto&& list, auto&& toIndex) {
    auto& indices = indices_.emplace_back();
    for (const auto& item : list) {
      indices.push_back(toIndex(item));
    }
    append(kind).tensors = indices;
  };
  if (value.isTensor()) {
    append(ValueKind::Tensor).number = indexOrUndefined(value.toTensor());
  } else if (value.isTensorList()) {
    addIndices(ValueKind::Tensors, value.toTensorVector(), indexOrUndefined);
  } else if (value.isOptionalTensorList()) {
    addIndices(
        ValueKind::OptionalTensors, value.toListRef(), [&](const IValue& item) {
          return item.isNone() ? kNone : indexOrUndefined(item.toTensor());
        });
  } else {
    crosses = addPlain(value);
  }
  ++count_;
  return crosses;
}

} // namespace c10::openreg::remote
