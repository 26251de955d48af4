"""One suite for two servers: whatever the real kube-apiserver answers is right.

A case is a sentence and a script of requests (`script`). Its answers, whole but for what must
differ (`normal`), are in `golden/conformance`, written down from the real server alone. Both
servers (`servers`) are held to them by `stage`.
"""
