// Memory that cuDNN takes for a convolution beside its tensors, on a device that
// poses as an NVIDIA GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

namespace at::native::openreg {

/// A convolution as cuDNN sees it. A transposed one is the gradient of a convolution
/// whose input is this one's output, so `in` and `out` change places.
struct ConvolutionShape {
  ConvolutionShape(
      const Tensor& input,
      const Tensor& weight,
      const Tensor& output,
      SymIntArrayRef stride,
      bool isTransposed,
      const SymInt& groups);

  int64_t images, groups;
  int64_t inChannels, outChannels; // of all groups
  int64_t inPixels, outPixels; // of one image
  int64_t kernelSize; // numbers of one kernel
  int64_t dimensions, width; // of an image
  int64_t stride;
  ScalarType dtype;
  bool isChannelsLast;
  bool isTransposed;

  /// Bytes that a forward pass takes while it runs.
  size_t forwardWorkspace() const;
  /// Bytes that a backward pass takes beside the gradients it returns: those of the
  /// input, the weight and the bias, as far as `wanted` says. It allocates them one
  /// after the other, each followed by its workspace.
  size_t backwardWorkspace(std::array<bool, 3> wanted) const;

 private:
  enum Pass : uint8_t { Forward, InputGradient, WeightGradient };

  size_t workspace(Pass pass) const;
  bool takesWorkspace() const;
};

} // namespace at::native::openreg
