"""Writes a new backend: ``python -m torch_openreg.new mychip``."""
