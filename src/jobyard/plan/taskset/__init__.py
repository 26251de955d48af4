"""The decision about a TaskSet: a file for each of its policies.

`deciding` is the table of contents and the only entrance. Retries at two levels, the ends of
roles and what they mean are Octopus' own, so they are apart from the decision about the other
kinds; how a replica stands is read by the same `plan.standing`.
"""
