"""The course tool: builds the notebooks, grades what a learner wrote, and profiles models."""
