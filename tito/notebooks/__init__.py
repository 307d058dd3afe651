"""From source to learner's notebook, twin and package: read, check, release, export, build.

A notebook is the plain dictionary that its JSON holds, with every cell's source as one string; so reading,
releasing and exporting one needs neither nbformat nor Jupyter.
"""
