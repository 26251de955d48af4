"""From a pod object and what it refers to, to the order that a supervisor carries out.

Pure: config maps, secrets and volumes are looked up or put on disk by others, and come in as
values. `pods.order_of` is the way in; what can't be ordered raises one of `problems`.
"""
