"""The methods of the paper's Table 1 and ``pcd``, which is newer; one file each."""

from gradsurgery.method import Method
from gradsurgery.methods.agem import agem
from gradsurgery.methods.barrier import barrier
from gradsurgery.methods.bloop import bloop
from gradsurgery.methods.cosine import cosine
from gradsurgery.methods.dynamic_barrier import dynamic_barrier
from gradsurgery.methods.gradvac import gradvac
from gradsurgery.methods.metabalance import metabalance
from gradsurgery.methods.mgda import mgda
from gradsurgery.methods.mixed import mixed
from gradsurgery.methods.pcd import pcd
from gradsurgery.methods.pcgrad import pcgrad

METHODS: dict[str, type[Method]] = {
    method.__name__: method
    for method in (bloop, mixed, agem, dynamic_barrier, barrier, mgda, cosine, gradvac, pcgrad, metabalance, pcd)
}
"""Constructors by name: those of Table 1 in its order, then newer ones."""

__all__ = [
    "METHODS",
    "agem",
    "barrier",
    "bloop",
    "cosine",
    "dynamic_barrier",
    "gradvac",
    "metabalance",
    "mgda",
    "mixed",
    "pcd",
    "pcgrad",
]
