"""What follows a trainer in an engine's own memory: where loaders put each tensor, what the engine then makes of its
weights, and the step from one version to the next. Nothing here knows a framework: each gives a _framework.Framework.
"""
