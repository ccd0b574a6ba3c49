"""The checks, a file per noun; levels.py says which level a file belongs to."""
