"""The ways in which ranks exchange arrays: threads of a process, processes of a host, MPI, a port to meet at."""
