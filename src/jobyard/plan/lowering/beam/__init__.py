"""What a BeamJob is made of: a Flink or Spark cluster, and the pod that submits to it.

Each module decides one part and is called by `plan.kinds.beamjob` alone. None of them knows
Beam's or the clusters' code: they only write the commands and settings that official images
and Python packages take.
"""
