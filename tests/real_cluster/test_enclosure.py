"""What counts as left behind by a cluster."""

from real_cluster.enclosure import left_behind


def test_what_is_new_is_left_behind_but_not_a_setting_that_came_with_a_module() -> None:
    before = frozenset({"kernel setting net/ipv4/ip_forward = 0"})
    after = frozenset(
        {
            "kernel setting net/ipv4/ip_forward = 1",
            "kernel setting net/netfilter/nf_conntrack_max = 262144",
            "process 7 'kubelet'",
        }
    )
    assert left_behind(before, after) == {
        "kernel setting net/ipv4/ip_forward = 1",
        "process 7 'kubelet'",
    }
