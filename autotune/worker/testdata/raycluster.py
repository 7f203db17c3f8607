"""Starts a Ray cluster of two nodes with two processors each on this machine, beside a head that has none; prints its address and the
processes of the raylets, and ends with its standard input."""
import json, os, sys

out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # Ray prints on standard output

from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
nodes = [cluster.add_node(num_cpus=2) for _ in range(2)]
cluster.wait_for_nodes()
print(json.dumps({"address": cluster.address, "raylets": [n.all_processes["raylet"][0].process.pid for n in nodes]}), file=out, flush=True)
sys.stdin.read()
cluster.shutdown()
