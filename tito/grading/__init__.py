"""Grading: read a submission, run it in a process of its own, judge what comes back, draw the verdict.

``submission`` reads and mends the learner's notebook, ``limits`` keeps the child process within time, memory and
output, ``child`` is what runs there, ``overlay`` lets the learner's file stand in for the package's, ``runner`` puts
them together and returns plain data, ``verdict`` draws it.

The child computes and the parent judges: ``judge`` cuts the answers out of graded cells, ``answers`` stands for their
checks in the child, ``blame`` says which cell to look at. ``edge`` reads which edge tests there are and believes what
``session`` reports of them if ``tamper`` saw nothing. ``fence`` and ``family`` keep the child's code and processes in.

For a class: ``inbox`` finds what was handed in, ``batch`` makes a ``job`` of each and rows of the results, ``pool`` and
``cluster`` have the jobs done, ``journal`` keeps the results, ``gradebook`` writes the tables.
"""
