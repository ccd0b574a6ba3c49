"""PyTorch's own device-generic tests on a device, out of a checkout's `test` folder."""
