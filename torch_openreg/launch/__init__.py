"""Runs a script in one rank per device of this machine.

``python -m torch_openreg.launch --devices 8 script.py [args]`` is torchrun with as
many openreg devices as ranks. It accepts the options of torchrun, except
--nproc-per-node, --run-path and --virtual-local-rank.
"""
