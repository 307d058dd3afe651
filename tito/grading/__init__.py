"""Grading: read a submission, run it in a process of its own, judge what comes back, draw the verdict.

``submission`` reads and mends the learner's notebook, ``limits`` keeps the child process within time, memory and
output, ``child`` is what runs there, ``overlay`` lets the learner's file stand in for the package's, ``runner`` puts
them together and returns plain data, ``verdict`` draws it.
"""
