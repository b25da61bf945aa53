"""The ways of ranks to exchange arrays: threads of a process, processes of a host, MPI, a port to meet at."""
