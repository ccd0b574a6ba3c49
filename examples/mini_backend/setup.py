from glob import glob

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="torch_mini",
    packages=["torch_mini"],
    ext_modules=[CppExtension("torch_mini._C", sorted(glob("csrc/*.cpp")))],
    cmdclass={"build_ext": BuildExtension.with_options(no_python_abi_suffix=True)},
    # torch calls this at the end of `import torch`.
    entry_points={"torch.backends": ["torch_mini = torch_mini:_autoload"]},
)
