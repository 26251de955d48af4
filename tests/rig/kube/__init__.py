"""A real Kubernetes control plane for the tests: etcd, kube-apiserver and their kin.

`rig.plugin` is what tests meet (the fixtures `control_plane`, `namespace`, `kubectl`);
`keeper` owns the processes for one pytest run; `control_plane` knows how they are
started and `component` how one process is; `plane` is the value that all of them
pass on; `kubelet` plays the nodes. Linux only: it leans on pidfds and on the parent-death
signal, so that nothing outlives a test run, however that ends.
"""
