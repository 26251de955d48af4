"""The hub: one small process that holds the private network and forks a supervisor per pod.

It outlives the engine, so that running pods keep their network, and it is warm: a pod starts with
a fork. It knows no pod's life; it answers one question per connection on a Unix socket.
"""
