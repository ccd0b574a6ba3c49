// How many threads a kernel may use.
//
// Threads: the number is each thread's own. The latest call of noteThreadsForBackward()
// counts, whichever thread made it.
#pragma once

namespace c10::openreg {

/// Sets the number of threads that kernels on the calling thread use. Unlike
/// at::set_num_threads(), it does not change the number for threads made later.
void useThreads(int threads);

/// A backward pass runs on threads of autograd. Kernels there are to use as many
/// threads as those of the thread that asked for it, which calls the first function
/// beforehand; threads of autograd call the second. PyTorch's number for new threads is
/// no help: any thread may have set it, as the pinning thread of a DataLoader does.
void noteThreadsForBackward();
void useThreadsOfBackward();

} // namespace c10::openreg
