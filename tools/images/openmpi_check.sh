#!/bin/sh -eu
# A program is compiled and run as two processes, and sshd is content with a key of its own.
cd /tmp
cat >ranks.c <<'END'
#include <mpi.h>
#include <stdio.h>
int main(int count, char **words) {
    int rank, sum;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    rank += 1;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("sum %d\n", sum);
    MPI_Finalize();
}
END
mpicc -o ranks ranks.c
test "$(mpirun --allow-run-as-root --oversubscribe -np 2 ./ranks | grep -c '^sum 3$')" = 2
ssh-keygen -q -t ed25519 -N '' -f key
mkdir -p /run/sshd
/usr/sbin/sshd -t -h /tmp/key
ssh -V
mpirun --allow-run-as-root --oversubscribe -np 2 python -c '
from mpi4py import MPI
import numpy

whole = numpy.empty(1)
MPI.COMM_WORLD.Allreduce(numpy.array([1.0 + MPI.COMM_WORLD.rank]), whole)
assert whole[0] == 3.0, whole
'
