"""Executors beyond this machine: Dask and MPI, loaded only when they are asked for."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ffrank.batch.run import default_workers
from ffrank.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor

__all__ = ["dask_executor", "mpi_executor"]


@contextmanager
def dask_executor(address: str, workers: int | None = None) -> Iterator[tuple[Executor, Callable[[], int]]]:
    """Connect to a Dask scheduler.

    Parameters
    ----------
    address : str
        Such as ``tcp://10.0.0.1:8786``; ``local`` makes a cluster of processes on this machine.
    workers : int, optional
        Processes of the local cluster.

    Yields
    ------
    executor, slots
        ``slots()`` is the number of tasks that the cluster runs at a time now.

    Raises
    ------
    InputError
        If distributed is not installed, or nobody answers at the address.
    """
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise InputError("--dask needs the package distributed; install ffrank[dask]") from None
    cluster: Any = None
    try:
        if address == "local":
            cluster = distributed.LocalCluster(
                n_workers=workers or default_workers(), threads_per_worker=1, dashboard_address=":0"
            )
        client = distributed.Client(cluster or address, timeout=30)
    except (OSError, ValueError) as e:
        if cluster is not None:
            cluster.close()
        raise InputError(f"--dask {address}: no scheduler can be reached there: {e}") from None
    try:
        yield client.get_executor(pure=False), lambda: max(1, sum(client.nthreads().values()))
    finally:
        client.close()
        if cluster is not None:
            cluster.close()


@contextmanager
def mpi_executor(workers: int | None = None) -> Iterator[tuple[Executor, Callable[[], int]]]:
    """Use the processes of ``mpiexec -n N python -m mpi4py.futures -m ffrank batch …``.

    Raises
    ------
    InputError
        If mpi4py is not installed.
    """
    try:
        futures: Any = import_module("mpi4py.futures")
    except ImportError:
        raise InputError("--mpi needs the package mpi4py") from None
    with futures.MPIPoolExecutor(workers) as executor:
        yield executor, lambda: max(1, executor.num_workers)
