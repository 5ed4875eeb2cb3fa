import re

import pytest

from tools import benchmark, benchmark_jobs


@pytest.mark.slow
def test_a_job_and_a_loop_have_the_same_scores(tmp_path):
    lines = benchmark_jobs.measure(benchmark_jobs.rows_of(6), tmp_path)
    assert [line.split(":")[0] for line in lines[:2]] == ["score, first call", "score, second call"]
    (difference,) = re.findall(r"largest difference of scores (\S+)$", lines[-1])
    assert float(difference) < 1e-4


def test_it_is_a_part_of_the_benchmark():
    assert benchmark.program_of("jobs", quick=True)[1:] == [
        benchmark_jobs.__file__, "--rows", "100",
    ]  # fmt: skip
