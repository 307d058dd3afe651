"""Measuring and optimizing: the profiler of module 14 and what is built with it."""

from importlib.util import find_spec

__all__: list[str] = []

if find_spec("tinytorch.perf.profiling"):  # absent only where the course is tested up to module 13, or 14 is graded
    from tinytorch.perf.profiling import (
        FlopReport,
        MachineLimits,
        MemoryProfiler,
        Profiler,
        amdahl_speedup,
        analyze_weight_distribution,
        compare,
        compare_table,
        count_flops,
        count_parameters,
        flop_report,
        latency_statistics,
        machine_limits,
        measure_latency,
        measure_memory,
        profile_backward_pass,
        profile_batch_sizes,
        profile_forward_pass,
        profile_layer,
        quick_profile,
        roofline,
        training_memory,
    )

    __all__ += [
        "FlopReport", "MachineLimits", "MemoryProfiler", "Profiler", "amdahl_speedup", "analyze_weight_distribution",
        "compare", "compare_table", "count_flops", "count_parameters", "flop_report", "latency_statistics",
        "machine_limits", "measure_latency", "measure_memory", "profile_backward_pass", "profile_batch_sizes",
        "profile_forward_pass", "profile_layer", "quick_profile", "roofline", "training_memory",
    ]
