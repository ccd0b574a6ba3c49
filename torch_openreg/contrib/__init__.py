"""Adapters for libraries that do not ask ``torch.accelerator`` for the device.

One module per library; each imports its library, and nothing imports it but you.
"""
