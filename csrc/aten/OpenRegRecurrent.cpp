// Registration of recurrent nets. For PyTorch these are compositions, which have
// no kernel: so they are registered where autograd looks, and where it would if it
// were not switched off.
#include "aten/native/Lstm.h"
#include "aten/native/Recurrent.h"

#include "runtime/OpenRegLibrary.h"

namespace at::native {

namespace ops = openreg;

namespace {

void registerRecurrent(torch::Library& m) {
  using ops::RecurrentKind;
  m.impl("gru.data", TORCH_FN(ops::recurrent_data<RecurrentKind::Gru>));
  m.impl("gru.input", TORCH_FN(ops::recurrent_input<RecurrentKind::Gru>));
  m.impl("gru_cell", TORCH_FN(ops::gru_cell));
  m.impl("lstm.data", TORCH_FN(ops::lstm_data));
  m.impl("lstm.input", TORCH_FN(ops::lstm_input));
  m.impl("lstm_cell", TORCH_FN(ops::lstm_cell));
  m.impl("rnn_relu.data", TORCH_FN(ops::recurrent_data<RecurrentKind::Relu>));
  m.impl("rnn_relu.input", TORCH_FN(ops::recurrent_input<RecurrentKind::Relu>));
  m.impl("rnn_tanh.data", TORCH_FN(ops::recurrent_data<RecurrentKind::Tanh>));
  m.impl("rnn_tanh.input", TORCH_FN(ops::recurrent_input<RecurrentKind::Tanh>));
}

} // namespace

OPENREG_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  registerRecurrent(m);
}

OPENREG_LIBRARY_IMPL(aten, PrivateUse1, m) {
  registerRecurrent(m);
}

} // namespace at::native
