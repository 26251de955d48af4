#!/bin/sh -eu
# As a cluster runs it: nobody's user, nothing to write to, and all of it compiled.
as_on_a_cluster="setpriv --reuid 65532 --regid 65532 --clear-groups"
$as_on_a_cluster /opt/jobyard/bin/jobyard --version
$as_on_a_cluster /opt/jobyard/bin/jobyard controller --help >/dev/null
$as_on_a_cluster /opt/jobyard/bin/jobyard install | grep -q '^kind: Deployment'
