"""Reference tests of AUC differences, written from their definitions without our helpers."""

import math

import numpy as np
from scipy import stats


def wins(scores, labels):
    """1, ½ or 0 for each pair of a positive (row) and a negative (column)."""
    scores, labels = np.asarray(scores, float), np.asarray(labels)
    return np.sign(scores[labels == 1][:, None] - scores[labels == 0][None, :]) / 2 + 0.5


def area(scores, labels):
    return wins(scores, labels).mean()


def delong_covariance(scores, labels):
    """DeLong 1988: the covariance of the positives' and of the negatives' shares of wins."""
    tables = [wins(row, labels) for row in scores]
    of_positives = np.cov([table.mean(axis=1) for table in tables])
    of_negatives = np.cov([table.mean(axis=0) for table in tables])
    positives, negatives = tables[0].shape
    return of_positives / positives + of_negatives / negatives


def area_difference(first, second, labels):
    """The difference, its standard error, and Brunner & Munzel's (2000) degrees of freedom."""
    difference = wins(first, labels) - wins(second, labels)
    positives, negatives = difference.shape
    of_positives = np.var(difference.mean(axis=1), ddof=1) / positives
    of_negatives = np.var(difference.mean(axis=0), ddof=1) / negatives
    variance = of_positives + of_negatives
    spread = of_positives**2 / (positives - 1) + of_negatives**2 / (negatives - 1)
    return difference.mean(), math.sqrt(variance), variance**2 / spread


def wilson(share, error, degrees, confidence=0.95):
    """Wilson 1927, with the number of rows that gives this standard error, and a t quantile."""
    rows = share * (1 - share) / error**2
    squared = stats.t.ppf((1 + confidence) / 2, degrees) ** 2
    # The shares that a test with this quantile does not reject: (p - x)^2 = t^2 x (1 - x) / n.
    roots = np.roots([1 + squared / rows, -2 * share - squared / rows, share**2])
    return sorted(roots.real)


def two_sided(statistic):
    return math.erfc(abs(statistic) / math.sqrt(2))


def delong_p(first, second, labels):
    covariance = delong_covariance([first, second], labels)
    variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    return two_sided((area(first, labels) - area(second, labels)) / math.sqrt(variance))


def hanley_mcneil_p(first, second, labels):
    """Hanley 1983: z = (A1 - A2) / sqrt(SE1² + SE2² - 2 r SE1 SE2), SE as in Hanley 1982."""
    positives, negatives = np.sum(labels), len(labels) - np.sum(labels)
    areas, errors = [area(row, labels) for row in (first, second)], []
    for a in areas:
        q1, q2 = a / (2 - a), 2 * a * a / (1 + a)
        spread = a * (1 - a) + (positives - 1) * (q1 - a * a) + (negatives - 1) * (q2 - a * a)
        errors.append(math.sqrt(spread / (positives * negatives)))
    covariance = delong_covariance([first, second], labels)
    product = covariance[0, 0] * covariance[1, 1]
    r = covariance[0, 1] / math.sqrt(product) if product > 0 else 0.0
    variance = errors[0] ** 2 + errors[1] ** 2 - 2 * r * errors[0] * errors[1]
    return two_sided((areas[0] - areas[1]) / math.sqrt(variance))


def exchanged_differences(first, second, labels, rounds, seed):
    """The difference of the AUCs, and the differences after random exchanges of rows' ranks."""
    ranks = stats.rankdata(first), stats.rankdata(second)
    generator, differences = np.random.default_rng(seed), []
    for _ in range(rounds):
        swap = generator.random(len(labels)) < 0.5
        left, right = np.where(swap, ranks[::-1], ranks)
        differences.append(area(left, labels) - area(right, labels))
    return area(first, labels) - area(second, labels), np.array(differences)


def randomization_p(parts):
    """Noreen 1989, for the mean over parts; a part is (difference, differences after exchanges)."""
    observed = np.mean([difference for difference, _ in parts])
    exchanged = np.mean([differences for _, differences in parts], axis=0)
    return (np.sum(np.abs(exchanged) >= abs(observed) - 1e-12) + 1) / (len(exchanged) + 1)
