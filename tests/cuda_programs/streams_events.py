"""Streams that overlap, and events that time them."""

import torch

device = torch.device("cuda")
a = torch.randn(256, 256, device=device)

start = torch.cuda.Event(enable_timing=True)
end = torch.cuda.Event(enable_timing=True)
start.record()
b = a
for _ in range(10):
    b = torch.mm(b, a) / 16
end.record()
torch.cuda.synchronize()
assert start.query() and end.query() and 0 < start.elapsed_time(end) < 60_000

s1, s2 = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
assert s1 != s2 and s2.priority < s1.priority
assert torch.cuda.current_stream() == torch.cuda.default_stream()
s1.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(s1):
    assert torch.cuda.current_stream() == s1
    torch.cuda._sleep(1_000_000)
    c = a + 1
    c.record_stream(s2)
    done = s1.record_event()
with torch.cuda.stream(s2):
    s2.wait_event(done)
    d = c * 2
s2.synchronize()
assert s2.query() and torch.equal(d.cpu(), (a.cpu() + 1) * 2)
torch.cuda.current_stream().wait_stream(s2)

with torch.cuda.device(1):
    other = torch.cuda.Stream()
assert other.device == torch.device("cuda:1")
with torch.cuda.stream(other):
    assert torch.cuda.current_device() == 1
    e = a.to("cuda:1", non_blocking=True) * 3
other.synchronize()
assert torch.equal(e.cpu(), a.cpu() * 3)
assert isinstance(s1, torch.Stream) and isinstance(done, torch.Event)
assert s1.cuda_stream != 0 and repr(s1).startswith("<torch.cuda.Stream device=cuda:0")
