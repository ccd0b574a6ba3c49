"""A tensor that another process reads and writes, by CUDA IPC."""

import torch
import torch.multiprocessing as mp


def double(queue, answers):
    tensor, view = queue.get()
    assert tensor.is_cuda and view.data_ptr() == tensor.data_ptr() + 4 * 4
    tensor.mul_(2)
    torch.cuda.synchronize()
    answers.put(tensor.sum().item())
    del tensor, view
    queue.get()


if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue, answers = context.Queue(), context.Queue()
    child = context.Process(target=double, args=(queue, answers))
    child.start()
    tensor = torch.arange(8.0, device="cuda")
    queue.put((tensor, tensor[4:]))
    assert answers.get(timeout=120) == 56.0
    assert tensor.sum().item() == 56.0
    queue.put(None)
    child.join()
    assert child.exitcode == 0
    torch.cuda.ipc_collect()
