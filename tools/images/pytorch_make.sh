#!/bin/sh -eu
apt-get -qq update
apt-get -qq -y --no-install-recommends install python3-torch python3-numpy
# This version goes through all members of a flag to find the one for 0, which Python 3.11 leaves
# out; without --redirects and --tee the package's torchrun fails. This one comes before it.
cat >/usr/local/bin/torchrun <<'END'
#!/usr/bin/python3
from torch.distributed.elastic.multiprocessing.api import Std
from torch.distributed.run import main

from_text = Std.from_str
Std.from_str = lambda text: Std.NONE if text == "0" else from_text(text)
main()
END
chmod 755 /usr/local/bin/torchrun
# Drivers for graphics come along with OpenCV, and tests with the rest; nothing here needs them.
libraries=/usr/lib/$(uname -m)-linux-gnu packages=/usr/lib/python3/dist-packages
rm -rf "$libraries"/dri "$libraries"/mfx "$libraries"/libLLVM-* "$libraries"/libz3.so.* \
    "$libraries"/gstreamer1.0 \
    /usr/lib/libtorch-test "$packages"/torch/bin/test_* "$packages"/sympy/integrals/rubi
