"""Collectives of occl against the same arithmetic on the CPU, and against Gloo."""

import pytest

# How many ranks, and how bytes travel between them.
WORLDS = [(1, "auto"), (2, "auto"), (3, "auto"), (8, "auto"), (3, "gloo")]


# What all bodies below begin with: numbers that every rank can make for every rank.
INPUTS = """
    import functools
    def make(rank, dtype, shape=(37,), seed=0):
        generator = torch.Generator().manual_seed(1000 * seed + rank)
        if dtype.is_complex:
            return torch.randn(shape, dtype=dtype, generator=generator)
        values = torch.randint(0, 5, shape, generator=generator)
        if dtype == torch.bool:
            return values > 2
        if not dtype.is_floating_point:
            return values.to(dtype)
        return (values / 4 + 0.3).to(dtype)
    def same(got, expected, exact=True):
        got = got.cpu()
        if exact:
            assert torch.equal(got, expected), (got, expected)
        else:
            torch.testing.assert_close(got, expected, rtol=2e-2, atol=1e-2)
"""

REDUCTIONS = (
    INPUTS
    + """
    R = dist.ReduceOp
    def combine(op, parts, dtype):
        if dtype == torch.bool:
            parts = torch.stack(parts)
            return {"SUM": parts.any(0), "MAX": parts.any(0), "BOR": parts.any(0),
                    "PRODUCT": parts.all(0), "MIN": parts.all(0), "BAND": parts.all(0),
                    "BXOR": parts.sum(0) % 2 == 1}[op]
        wide = torch.float32 if dtype in (torch.half, torch.bfloat16) else dtype
        if op == "AVG" and not dtype.is_floating_point and not dtype.is_complex:
            total = torch.stack(parts).to(torch.int64).sum(0)
            return torch.div(total, size, rounding_mode="trunc").to(dtype)
        f = {"SUM": torch.add, "AVG": torch.add, "PREMUL_SUM": torch.add,
             "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum,
             "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}[op]
        if op == "PREMUL_SUM":
            parts = [(p * 2.0).to(dtype) for p in parts]
        result = functools.reduce(f, [p.to(wide) for p in parts])
        if op == "AVG" and dtype.is_complex:
            return torch.view_as_complex(torch.view_as_real(result) / size)
        return (result / size if op == "AVG" else result).to(dtype)
    floats = [torch.float32, torch.float64, torch.half, torch.bfloat16]
    integers = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
    linear = ["SUM", "AVG", "PREMUL_SUM"]
    cases = [(t, o) for t in floats for o in [*linear, "PRODUCT", "MIN", "MAX"]]
    cases += [(t, o) for t in integers for o in
              ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"]]
    cases += [(t, o) for t in [torch.complex64, torch.complex128] for o in linear]
    cases += [(torch.bool, o) for o in ["SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"]]
"""
)


@pytest.mark.parametrize(("size", "transport"), WORLDS)
def test_a_reduction_combines_the_ranks_in_order_for_every_dtype(
    ranks, size, transport
):
    ranks(
        REDUCTIONS
        + """
    names = {"auto": "shared memory", "gloo": "gloo"}
    backend = dist.group.WORLD._get_backend(device)
    assert backend.transport == names[os.environ["OPENREG_OCCL_TRANSPORT"]]
    for number, (dtype, op) in enumerate(cases):
        name = f"{dtype} {op}"
        reduce_op = dist._make_nccl_premul_sum(2.0) if op == "PREMUL_SUM" else getattr(R, op)
        parts = [make(r, dtype, seed=number) for r in range(size)]
        expected = combine(op, parts, dtype)
        x = parts[rank].to(device)
        dist.all_reduce(x, reduce_op)
        assert torch.equal(x.cpu(), expected), (name, x.cpu(), expected)
        root = number % size
        x = parts[rank].to(device)
        dist.reduce(x, root, reduce_op)
        same(x, expected if rank == root else parts[rank])
        lists = [[make(r, dtype, seed=50 + k) for k in range(size)] for r in range(size)]
        out = torch.empty(37, dtype=dtype, device=device)
        dist.reduce_scatter(out, [x.to(device) for x in lists[rank]], reduce_op)
        same(out, combine(op, [lists[r][rank] for r in range(size)], dtype))
        out.zero_()
        dist.reduce_scatter_single(out, torch.cat(lists[rank]).to(device), reduce_op)
        same(out, combine(op, [lists[r][rank] for r in range(size)], dtype))
    """,
        size,
        OPENREG_OCCL_TRANSPORT=transport,
    )


@pytest.mark.parametrize(("size", "transport"), [(2, "auto"), (3, "auto"), (3, "gloo")])
def test_large_tensors_are_reduced_in_parts_and_are_the_same_everywhere(
    ranks, size, transport
):
    ranks(
        REDUCTIONS
        + """
    for dtype, count in [(torch.float32, 300_001), (torch.half, 70_001), (torch.float64, 9_000)]:
        generator = torch.Generator().manual_seed(3)
        parts = [torch.randn(count, generator=generator).to(dtype) for _ in range(size)]
        x = parts[rank].to(device)
        dist.all_reduce(x)
        same(x, combine("SUM", parts, dtype))
        y = parts[rank].to(device)
        dist.broadcast(y, size - 1)
        same(y, parts[-1])
        y = parts[rank].to(device)
        dist.reduce(y, 1)
        same(y, combine("SUM", parts, dtype) if rank == 1 else parts[rank])
        other = parts[rank].clone()
        dist.all_reduce(other)
        same(x, other, exact=size == 2 and dtype != torch.half)
    """,
        size,
        OPENREG_OCCL_TRANSPORT=transport,
    )


@pytest.mark.parametrize(("size", "transport"), WORLDS)
def test_every_collective_moves_what_gloo_moves(ranks, size, transport):
    ranks(
        INPUTS
        + """
    everything = [torch.float32, torch.int64, torch.uint8, torch.half]
    ours_only = [torch.bool, torch.bfloat16, torch.complex64, torch.float8_e4m3fn, torch.int16]
    for number, dtype in enumerate(everything + ours_only):
        if dtype == torch.float8_e4m3fn:
            mine = [make(r, torch.float32, (size, 5), number).to(dtype) for r in range(size)]
        else:
            mine = [make(r, dtype, (size, 5), number) for r in range(size)]
        def bits(tensors):
            return [t.cpu().contiguous().view(torch.uint8) for t in tensors]
        def run(device):
            x, results = mine[rank].to(device), []
            empty = lambda *shape: torch.empty(*shape, dtype=dtype, device=device).zero_()
            root = number % size
            y = x.clone(); dist.broadcast(y, root); results.append(y)
            out = [empty(size, 5) for _ in range(size)]; dist.all_gather(out, x); results += out
            out = empty(size * size, 5); dist.all_gather_single(out, x); results.append(out)
            out = [empty(size, 5) for _ in range(size)] if rank == root else None
            dist.gather(x, out, root); results += out or []
            out = empty(5)
            dist.scatter(out, list(x.unbind()) if rank == root else None, root)
            results.append(out)
            out = empty(size, 5); dist.all_to_all_single(out, x); results.append(out)
            return results
        got, expected = run(device), None
        if dtype in everything:
            expected = run("cpu")
        else:
            root = number % size
            expected = [mine[root], *mine, torch.cat(mine)]
            expected += mine if rank == root else []
            expected += [mine[root][rank], torch.stack([mine[r][rank] for r in range(size)])]
        for a, b in zip(bits(got), bits(expected), strict=True):
            assert torch.equal(a, b), dtype
    """,
        size,
        OPENREG_OCCL_TRANSPORT=transport,
    )


def test_sizes_may_differ_from_rank_to_rank(ranks):
    ranks(
        """
    x = torch.full((rank + 1,), float(rank), device=device)
    out = [torch.empty(r + 1, device=device) for r in range(size)]
    dist.all_gather(out, x)
    assert [t.tolist() for t in out] == [[float(r)] * (r + 1) for r in range(size)]
    # Rank i sends i + j rows to rank j.
    sends = [rank + j for j in range(size)]
    takes = [j + rank for j in range(size)]
    x = torch.full((sum(sends), 2), float(rank), device=device)
    y = torch.empty(sum(takes), 2, device=device)
    dist.all_to_all_single(y, x, takes, sends)
    assert y[:, 0].tolist() == [float(j) for j in range(size) for _ in range(takes[j])]
    ins = list(x.split(sends)); outs = [torch.empty(t, 2, device=device) for t in takes]
    dist.all_to_all(outs, ins)
    assert torch.equal(torch.cat(outs), y)
    out = torch.empty(rank + 1, device=device)
    dist.reduce_scatter(out, [torch.ones(r + 1, device=device) for r in range(size)])
    assert out.tolist() == [float(size)] * (rank + 1)
    empty = torch.empty(0, device=device)
    dist.all_reduce(empty); dist.broadcast(empty, 0)
    """,
        3,
    )


def test_messages_go_both_ways_in_any_order_and_from_anyone(ranks):
    ranks(
        """
    other = 1 - rank
    mine, theirs = torch.full((6,), 1.0 + rank, device=device), torch.empty(6, device=device)
    for first in (dist.isend, dist.irecv):  # both ranks begin with the same
        second = dist.irecv if first is dist.isend else dist.isend
        tensors = {dist.isend: mine, dist.irecv: theirs.zero_()}
        for work in [f(tensors[f], other) for f in (first, second)]:
            work.wait()
        assert theirs.tolist() == [1.0 + other] * 6
    # An irecv that is answered late does not keep collectives from running.
    late = dist.irecv(theirs.zero_(), other, tag=7)
    x = torch.ones(3, device=device)
    dist.all_reduce(x)
    assert x.tolist() == [2.0] * 3
    dist.isend(mine, other, tag=7).wait()
    late.wait()
    assert theirs.tolist() == [1.0 + other] * 6
    if rank == 0:
        dist.send(mine, 1)
    else:
        assert dist.recv(theirs) == 0
        assert theirs.tolist() == [1.0] * 6
    ops = [dist.P2POp(dist.irecv, theirs.zero_(), other), dist.P2POp(dist.isend, mine, other)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert theirs.tolist() == [1.0 + other] * 6
    """
    )


def test_coalesced_functional_and_object_collectives(ranks):
    ranks(
        """
    import torch.distributed._functional_collectives as funcol
    a, b = torch.ones(3, device=device), torch.full((2, 2), 2.0, device=device)
    with dist._coalescing_manager(device=device, async_ops=True) as works:
        dist.all_reduce(a); dist.all_reduce(b)
    works.wait()
    assert a.tolist() == [float(size)] * 3 and b.sum().item() == 8.0 * size
    outs = [torch.empty(size * 2, device=device) for _ in range(2)]
    with dist._coalescing_manager(device=device):
        for i, out in enumerate(outs):
            dist.all_gather_single(out, torch.full((2,), float(rank + i), device=device))
    assert [o.tolist() for o in outs] == [[float(r + i) for r in range(size) for _ in "ab"] for i in (0, 1)]
    group = dist.group.WORLD
    assert funcol.all_reduce(torch.ones(2, device=device), "sum", group).tolist() == [float(size)] * 2
    gathered = funcol.all_gather_tensor(torch.full((2,), float(rank), device=device), 0, group)
    assert gathered.tolist() == [float(r) for r in range(size) for _ in "ab"]
    part = funcol.reduce_scatter_tensor(torch.arange(2.0 * size, device=device), "sum", 0, group)
    assert part.tolist() == [size * (2.0 * rank + i) for i in (0, 1)]
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)]
    one = [f"from {rank}"]
    dist.broadcast_object_list(one, 1, device=device)
    assert one == ["from 1"]
    """,
        3,
    )


@pytest.mark.slow
def test_eight_ranks_share_the_cores_as_well_as_four_do(ranks):
    # In turns, so that both have the same share of a busy machine.
    told = ranks(
        """
    import time
    groups = {n: dist.new_group(range(n), backend="occl") for n in (4, 8)}
    x, best = torch.ones(256, device=device), {4: 1e9, 8: 1e9}
    for round in range(10):
        for n, group in groups.items():
            dist.barrier(groups[8])
            if rank >= n:
                continue
            start = time.perf_counter()
            for _ in range(50):
                dist.all_reduce(x, group=group)
            torch.openreg.synchronize()
            best[n] = min(best[n], time.perf_counter() - start)
    return best
    """,
        8,
        patience=110,
    )
    four, eight = (told[0][n] / int(n) for n in ("4", "8"))
    assert eight < 2 * four


def test_groups_are_made_split_and_meshed(ranks):
    ranks(
        """
    join(device_id=device)
    group = dist.group.WORLD._get_backend(device)
    assert group.name() == "occl" and group.size() == size
    pair = dist.new_group([0, 2])
    if rank in (0, 2):
        x = torch.ones(2, device=device)
        dist.all_reduce(x, group=pair)
        assert x.tolist() == [2.0, 2.0]
    half = dist.split_group(split_ranks=[[0, 1], [2, 3]])
    x = torch.full((1,), float(rank), device=device)
    dist.all_reduce(x, group=half)
    assert x.item() == (1.0 if rank < 2 else 5.0)
    mesh = dist.init_device_mesh("openreg", (2, 2), mesh_dim_names=("a", "b"))
    x = torch.full((1,), float(rank), device=device)
    dist.all_reduce(x, group=mesh["a"].get_group())
    assert x.item() == 2.0 * (rank % 2) + 2.0
    before = group._get_sequence_number_for_group()
    dist.barrier()
    assert group._get_sequence_number_for_group() == before + 1
    group.monitored_barrier()
    """,
        4,
        backend=None,
        joins=False,
        OPENREG_DEVICE_COUNT="4",
    )


def test_a_group_of_two_backends_ends_without_a_warning(ranks):
    told = ranks(
        """
    with open(f"{folder}/errors", "w+") as errors:
        os.dup2(errors.fileno(), sys.stderr.fileno())
        dist.destroy_process_group()
        errors.seek(0)
        return errors.read()
    """,
        1,
    )
    assert told == [""]


def test_bad_arguments_are_refused_with_a_sentence(ranks):
    ranks(
        """
    def refuses(words, f, *args, **options):
        try:
            f(*args, **options)
        except (ValueError, TypeError, RuntimeError, NotImplementedError) as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)
    x = torch.ones(4, device=device)
    refuses("does not reduce them", dist.all_reduce, x.to(torch.float8_e5m2))
    refuses("on complex tensors", dist.all_reduce, x.to(torch.complex64), dist.ReduceOp.MAX)
    refuses("float32 with BAND", dist.all_reduce, x, dist.ReduceOp.BAND)
    refuses("side by side", dist.all_reduce, torch.ones(4, 4, device=device)[:, :2])
    refuses("contiguous", dist.all_gather_single, torch.ones(4, 4, device=device).t(), torch.ones(4, 2, device=device))
    refuses("", dist.all_gather_single, torch.ones(5, device=device), x)
    refuses("make up the", dist.all_to_all_single, x.clone(), x, [1, 1], [2, 2])
    refuses("itself", dist.group.WORLD._get_backend(device).send, [x], rank, 0)
    refuses("in [0, 2)", dist.group.WORLD._get_backend(device).send, [x], 5, 0)
    refuses("Sparse", dist.all_reduce, torch.eye(3, device=device).to_sparse())
    dist.all_reduce(x)
    assert x.tolist() == [2.0] * 4  # nothing of that has broken the group
    """
    )
